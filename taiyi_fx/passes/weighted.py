"""Rules of how weights come from products and lead to one: an attention's path through functions.

Scores are products of two tensors; a softmax makes weights of them; their product with values is
the output. Between these stand scales, masks, dropout and changes of type or shape, which are told
by the names of functions, so that the rules serve nodes of a graph and calls at run time alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

_KEEPING = frozenset(
    "dropout native_dropout feature_dropout alpha_dropout identity to type type_as float half "
    "bfloat16 double contiguous clone nan_to_num masked_fill mul imul rmul div truediv itruediv "
    "view reshape flatten unflatten squeeze unsqueeze view_as reshape_as expand expand_as".split()
)
_SCORING = _KEEPING | frozenset(
    "add iadd radd sub isub rsub tanh clamp clip where getitem cat permute transpose".split()
)
_PRODUCTS = frozenset("matmul bmm einsum".split())
_SWAPPING = frozenset("transpose swapaxes swapdims".split())


NOT_ONE = (
    "the weights of its softmax do not lead to one product with values that can be followed: they "
    "are mixed, multiplied in blocks or twice, or by a kernel of its own; read a module's output"
)
"""The reason why the output of an attention that takes a softmax itself is not read."""


class Weights(NamedTuple):
    """A tensor that holds weights, whose last two axes are queries and keys.

    Attributes:
        is_transposed: True if these two axes have changed places.
    """

    is_transposed: bool = False


class Product(NamedTuple):
    """The product of weights with values.

    Attributes:
        value: The tensor, or the node that makes it.
        heads: The axis of the heads, if it has more than three.
    """

    value: Any
    heads: int


def name_of(target: Any) -> str:
    """The bare name of a function, a method or a property: ``matmul`` of ``Tensor.__matmul__``."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    if name == "__get__":
        name = getattr(getattr(target, "__self__", None), "__name__", "")
    return name.strip("_")


def operands(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[int, Any]]:
    """The arguments of a call that may be tensors, with their positions among the operands."""
    every = [*args, *kwargs.values()]
    if name == "einsum":
        every = [part for a in every[1:] for part in (a if isinstance(a, (list, tuple)) else (a,))]
    elif name in ("cat", "concat"):
        every = [*every[0]] if every and isinstance(every[0], (list, tuple)) else every
    yield from enumerate(every)


def after(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], at: int, weights: Weights, made: Any
) -> Weights | Product | None:
    """The result of a call with weights among its operands: still weights, a product, or neither.

    Args:
        name: The function's bare name.
        args: The positional arguments.
        kwargs: The keywords.
        at: The position of the weights among the operands.
        weights: The weights.
        made: The result, or the node that makes it.
    """
    if name in _PRODUCTS:
        heads = _heads_of_product(name, args, kwargs, at, weights)
        return None if heads is None else Product(made, heads)
    ndim = getattr(made, "ndim", 4)  # as far as is known: a node of a graph does not say
    if at == 0 and _swaps(name, args, kwargs, ndim):
        return Weights(not weights.is_transposed)
    if name == "getitem":
        return weights if at == 0 and _keeps_queries(args[1]) else None
    keeps = name in _KEEPING and (at == 0 or name in ("mul", "rmul"))
    return weights if keeps else None


def is_product(name: str) -> bool:
    """True for a function whose result may be scores: the products of two of its operands."""
    return name in _PRODUCTS or name == "baddbmm"


def keeps_scores(name: str) -> bool:
    """True for a function that scores may go through before their softmax."""
    return name in _SCORING


def _heads_of_product(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], at: int, weights: Weights
) -> int | None:
    if name != "einsum":
        return -3 if at == int(weights.is_transposed) else None
    equation = args[0] if args else kwargs.get("equation")
    return _heads_of_einsum(equation, at, weights) if isinstance(equation, str) else None


def _heads_of_einsum(equation: str, at: int, weights: Weights) -> int | None:
    """The axis of the heads in the result, if keys are summed over and queries are not."""
    given, arrow, made = equation.replace(" ", "").partition("->")
    labels = given.split(",")
    if not arrow or at >= len(labels) or len(labels[at].replace("...", "")) < 2:
        return None
    *lead, queries, keys = labels[at].replace("...", ".")
    if weights.is_transposed:
        queries, keys = keys, queries
    made = made.replace("...", ".")
    is_one = queries in made and keys not in made and sum(keys in part for part in labels) > 1
    if not is_one or "." in (queries, keys):
        return None
    head = lead[-1] if lead else ""
    if not head or head == "." or head not in made:
        return -3 if made.find(queries) == len(made) - 2 else None
    place = made.index(head)
    return place - len(made) if "." in made[:place] else place


def _swaps(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], ndim: int) -> bool:
    """True for an exchange of the last two axes."""
    given = [*args[1:], *kwargs.values()]
    axes = [a for part in given for a in (part if isinstance(part, (list, tuple)) else (part,))]
    if not all(isinstance(a, int) for a in axes):
        return False
    if name == "permute":
        *before, a, b = [a % len(axes) for a in axes] if len(axes) > 1 else [0, 0]
        return before == [*range(len(before))] and a == b + 1
    last = sorted(a % ndim for a in axes if -ndim <= a < ndim)
    return name == "mT" or (name in _SWAPPING and last == [ndim - 2, ndim - 1])


def _keeps_queries(index: Any) -> bool:
    """True for the index that leaves out the last key alone: a sink, which has no value."""
    return index == (Ellipsis, slice(None, -1))
