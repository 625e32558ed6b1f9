"""Autograd's notes of how a number was made, read without torch: functions, their shapes and axes.

The nodes are torch's, which have no type of their own, hence `Any`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

_UNTOLD = object()
_ARE_PLAIN: ContextVar[Callable[[], bool]] = ContextVar("are_plain", default=lambda: False)
_MOST = 20_000
"""Functions of one graph that are looked at: a deep model has some thousands."""
_FAR = 30
"""Functions between what was computed and the parameters of the module before."""
VIEWS = frozenset({"View", "UnsafeView", "ReshapeAlias"})
"""Functions that split axes and join them."""
TURNS = frozenset({"T", "Transpose", "Permute"})
"""Functions that put axes into another order."""
KEEPS = VIEWS | {"ToCopy", "Clone", "Alias", "Expand", "Squeeze", "Unsqueeze", "EagerTap"}
"""Functions that hand all numbers on in their order, the monitor's own among them."""
REARRANGES = KEEPS | TURNS | {"Slice", "Select", "Index", "Cat"}
"""Functions that hand numbers on as they are, all or some of them, in any order."""


def name_of(node: Any) -> str:
    """The name of a function: ``"Addmm"``; of a leaf ``"torch::autograd::AccumulateGrad"``."""
    return node.name().partition("Backward")[0]


def shape_of(node: Any) -> tuple[int, ...]:
    """The shape of what a function made; empty of a number, and if it is not known."""
    known = getattr(node, "_input_metadata", ())  # as torch has no other word for it
    return tuple(int(n) for n in known[0].shape) if len(known) == 1 else ()


def axis_of(saved: int, ndim: int) -> int:
    """An axis that autograd saved, counted from the front: it keeps -1 as 2**64 - 1."""
    return (saved - 2**64 if saved >= 2**63 else saved) % ndim


def is_at_hand(node: Any, name: str) -> bool:
    """True if to read a tensor that a function saved runs nobody's hook, as that of a checkpoint.

    Of an earlier torch, which does not tell, it is as `reading_saved` has it.

    Args:
        node: The function.
        name: The tensor's name, as in ``node._saved_target``.
    """
    saved = getattr(node, f"_raw_saved_{name}", None)
    if saved is None:
        return True
    hooks = [getattr(one, "unpack_hook", _UNTOLD) for one in _each(saved)]
    return _ARE_PLAIN.get()() if _UNTOLD in hooks else all(hook is None for hook in hooks)


def saved_by(node: Any, name: str) -> Any:
    """A tensor that a function saved; None without one, with hooks, and if backward released it.

    Args:
        node: The function.
        name: The tensor's name, as in ``node._saved_target``.
    """
    if not is_at_hand(node, name):
        return None
    try:
        saved = getattr(node, f"_saved_{name}", None)
    except RuntimeError:  # released by backward
        return None
    return None if saved is None else saved.detach()


def saved_indices_by(node: Any) -> tuple[Any, ...]:
    """The index of each axis that ``x[i, j]`` saved, None of a whole one; else as `saved_by`."""
    if not is_at_hand(node, "indices"):
        return ()
    try:
        return tuple(None if one is None else one.detach() for one in node._saved_indices)
    except RuntimeError:  # released by backward
        return ()


def _each(saved: Any) -> tuple[Any, ...]:
    """All that a function saved under one name."""
    return saved if isinstance(saved, tuple) else (saved,)


def factor_of(node: Any) -> float | None:
    """The number that a function multiplies, or divides, something computed by; None of others."""
    factor = saved_by(node, "other") if operands_of(node)[1:] == [None] else None
    if factor is None or factor.numel() != 1 or factor.device.type != "cpu":
        return None
    return float(factor)


def multiple_of(node: Any) -> tuple[float, Any] | None:
    """The number that a function multiplies something by, and what made that; None of others.

    The number may be a constant, or trained, as a temperature is.
    """
    if name_of(node) not in ("Mul", "Div"):
        return None
    sides = [("other", 0)] if name_of(node) == "Div" else [("other", 0), ("self", 1)]
    for name, place in sides:
        number = saved_by(node, name)
        if number is None or number.numel() != 1 or number.device.type != "cpu":
            continue
        factor = float(number)
        if name_of(node) == "Div":
            factor = 1 / factor if factor else float("inf")
        return factor, operands_of(node)[place]
    return None


def behind_factors(node: Any, passed: Collection[str] = REARRANGES) -> tuple[float, Any]:
    """The product of the constants that something was multiplied by, and what made it before them.

    Args:
        node: The function that made it; None of what wants no gradient.
        passed: Functions in between that are gone past.
    """
    factor = 1.0
    for _ in range(_FAR):
        known = multiple_of(node) if node is not None and None in operands_of(node) else None
        if known is not None:
            factor, node = factor * known[0], known[1]
        elif node is not None and name_of(node) in passed:
            node = next(iter(makers_of(node)), None)
        else:
            break
    return factor, node


@contextmanager
def reading_saved(are_plain: Callable[[], bool]) -> Iterator[None]:
    """In the body, saved tensors of a torch that does not tell of their hooks may be read.

    Args:
        are_plain: Asked for each: true if there are no hooks.
    """
    token = _ARE_PLAIN.set(are_plain)
    try:
        yield
    finally:
        _ARE_PLAIN.reset(token)


def is_released(number: Any) -> bool:
    """True for a tensor whose backward has freed what the functions before it had saved.

    Args:
        number: The tensor; false of what has no graph.
    """
    for node in Uses.of(number).nodes:
        for raw in (name for name in dir(node) if name.startswith("_raw_saved_")):
            name = raw.removeprefix("_raw_saved_")
            if not is_at_hand(node, name):
                continue
            try:
                getattr(node, f"_saved_{name}")
            except RuntimeError:
                return True
            return False
    return False


def operands_of(node: Any) -> list[Any]:
    """The functions that made a function's operands; None of those that want no gradient."""
    return [other for other, _ in node.next_functions]


def makers_of(node: Any) -> list[Any]:
    """The functions that made those of a function's operands that want a gradient."""
    return [other for other in operands_of(node) if other is not None]


def all_before(nodes: Iterable[Any]) -> list[Any]:
    """Some functions, and all that made what they take, each once."""
    every = [*nodes]
    seen = {id(node): node for node in every}
    for node in every:  # which grows on the way
        every += _new(makers_of(node), seen)
    return every


def is_scaled(node: Any) -> bool:
    """True for a product with what wants no gradient: a factor, or the mask of a dropout."""
    return name_of(node) == "Mul" and operands_of(node)[1:] == [None]


def maker_of(node: Any) -> Any:
    """The function that made a function's first operand, behind what rearranges it; or None."""
    given = makers_of(node)[:1]
    while given and name_of(given[0]) in REARRANGES:
        given = makers_of(given[0])[:1]
    return given[0] if given else None


def is_parameter(node: Any) -> bool:
    """True for a leaf that wants a gradient, as it is or rearranged; not for None, a constant."""
    if node is None:
        return False
    leaf = maker_of(node) if name_of(node) in REARRANGES else node
    return hasattr(leaf, "variable")


def parameter_before(node: Any) -> Any:
    """The leaf that a function is, or only rearranges; None if it is another, or none."""
    return None if node is None else getattr(_leaf_or_self(node), "variable", None)


def nodes_near(start: Any, names: Collection[str], most: int) -> Iterator[Any]:
    """The functions of some names that a number was made by, within so many from its end."""
    level = [start] if start is not None else []
    seen = {id(x): x for x in level}  # held: the id of a function that is let go may come again
    for _ in range(most):
        yield from (x for x in level if name_of(x) in names)
        level = _new((y for x in level if name_of(x) not in names for y in makers_of(x)), seen)


def _new(nodes: Iterable[Any], seen: dict[int, Any]) -> list[Any]:
    """Those that were not seen, each once; they are now."""
    new = {id(x): x for x in nodes if id(x) not in seen}
    seen |= new
    return [*new.values()]


def _leaf_or_self(node: Any) -> Any:
    """The leaf that a function only rearranges, as the weight of a layer is turned; else itself."""
    return maker_of(node) if name_of(node) in REARRANGES and is_parameter(node) else node


@dataclass(frozen=True)
class Uses:
    """The functions that made a number, each with those that take what it returns.

    Holds the graph: to be dropped once it was looked at.

    Attributes:
        nodes: The functions, the last one first.
        users: The functions that take what each made, by its id, with the place of the operand.
        number: The number.
        parameters: The module of each parameter, by the parameter's id.
    """

    nodes: list[Any]
    users: dict[int, list[tuple[Any, int]]]
    number: Any = None
    parameters: Mapping[int, str] = field(default_factory=dict)

    def owner(self, node: Any) -> str:
        """The module whose parameters come next before a function; empty if it is not known."""
        level, seen = [node], dict[int, Any]()
        for _ in range(_FAR):
            for x in level:
                name = self.parameters.get(id(getattr(x, "variable", None)), "")
                if name:
                    return name
            level = _new((_leaf_or_self(y) for x in level for y in makers_of(x)), seen)
        return ""

    @staticmethod
    def of(number: Any, parameters: Mapping[int, str] | None = None) -> Uses:
        """Of a tensor; of what has no graph, and of a graph of too many functions, nothing.

        Args:
            number: The tensor, before or after its backward.
            parameters: The module of each parameter, by the parameter's id.
        """
        start = getattr(number, "grad_fn", None)
        nodes = [] if start is None else [start]
        users: dict[int, list[tuple[Any, int]]] = {id(start): []}
        for node in nodes:  # which grows on the way
            for place, (other, _) in enumerate(node.next_functions):
                if other is None:
                    continue
                if id(other) not in users:
                    users[id(other)] = []
                    nodes.append(other)
                users[id(other)].append((node, place))
            if len(nodes) > _MOST:
                nodes, users = [], {}
                break
        return Uses(nodes, users, number, parameters or {})
