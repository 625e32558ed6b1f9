"""Readings of small tensors that wait for the end of their graph, where one call makes them all.

At a small tensor, calling a function takes longer than all that the function does. Where nothing
can change a tensor before its graph ends, it can as well be read there; and what has to be asked of
each is asked of all by builtins that pass over a list.

Large tensors do not wait, as that would keep them in memory. So readings wait where all of a
graph's tensors were small when it last ran with inputs of these shapes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.probes.accumulate import SlotGroup, fail_all
from taiyi_fx.passes.probes.gradient_hook import GradientHook
from taiyi_fx.passes.probes.held import CHANGED, MOST, SMALL, UNKNOWN, Held, Turn, may_be_held

LEAST = 4
"""The fewest probes of a graph whose readings wait: one call for fewer saves nothing."""
_MOST_SHAPES = 256
"""The most shapes of inputs that are remembered."""

Shapes = tuple[Any, ...]
Read = Callable[..., Any]

_dtype_of, _is_on_cpu = operator.attrgetter("dtype"), operator.attrgetter("is_cpu")
_node_of, _output_of = operator.attrgetter("grad_fn"), operator.attrgetter("output_nr")
_version_of, _first_version_of = operator.attrgetter("_version"), operator.attrgetter("version")
_TENSOR, _SINGLE = frozenset((Tensor,)), frozenset((torch.float32,))
_PLAIN = frozenset((bool, int, float, str, type(None)))


class Sizes:
    """Knows with inputs of which shapes all tensors of a graph are small.

    One of these belongs to two forms of a graph: in the one each tensor is read at its place and
    its size noted, in the other all are read at the end.

    Attributes:
        are_noted: True if the graph has readings that may wait.
        versions: The version of each tensor at its place, when it was last read there.
    """

    are_noted = False

    def __init__(self) -> None:
        self.versions: dict[int, int] = {}
        self._known: dict[Shapes, bool] = {}
        self._inputs: Shapes | None = None
        self._are_small = True

    def begin(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Takes the inputs of a run that begins; true if readings may wait for its end."""
        self._inputs = _shapes_of(args, kwargs)
        self._are_small = True
        return self._inputs is not None and self._known.get(self._inputs, False)

    def noting(self, read: Read, place: int) -> Read:
        """A probe's function that notes the size and the version of what it reads.

        Args:
            read: The function.
            place: The number of the probe.
        """
        self.are_noted = True

        def noted(value: Any, given: Any = None) -> Any:
            if not _are_small((value,)) or value.is_inference():  # which has no version
                self._are_small = False
            else:
                self.versions[place] = value._version
            return read(value, given)

        noted.__name__, noted.__module__ = read.__name__, read.__module__
        return noted

    def end(self) -> None:
        """Ends a run in which each size was noted."""
        if self._inputs is not None and len(self._known) < _MOST_SHAPES:
            self._known[self._inputs] = self._are_small

    def refuse(self) -> None:
        """Lets none wait with these inputs: a tensor was not small, or was changed meanwhile."""
        if self._inputs is not None:
            self._known[self._inputs] = False


class Waiting(NamedTuple):
    """A probe whose readings may wait for the end of its graph.

    Attributes:
        read: Its function, for a tensor that is not of the usual kind.
        groups: The reductions and slots of the value; none if only the gradient is read.
        hook: Reads the gradient; None if only the value is read.
    """

    read: Read
    groups: tuple[SlotGroup, ...]
    hook: GradientHook | None


class _Lists(NamedTuple):
    """The lists that gradients of one forward come to.

    Attributes:
        of: Each hook's.
        owners: The builtin of each, in the form that a node takes.
        lists: The lists, by turn.
    """

    of: list[Turn]
    owners: list[Tensor]
    lists: dict[Turn, list[Tensor]]


class ReadAtEnd:
    """Reads what several probes would, given the value of each."""

    def __init__(self, probes: Sequence[Waiting], room: Held, sizes: Sizes) -> None:
        self._probes = probes
        self._values = _picker(i for i, probe in enumerate(probes) if probe.groups)
        self._groups = [probe.groups for probe in probes if probe.groups]
        self._tapped = _picker(i for i, probe in enumerate(probes) if probe.hook)
        self._hooks = [probe.hook for probe in probes if probe.hook]
        self._turns: dict[int, _Lists] = {}
        self._hung = [None] * len(self._hooks)
        self._room = room
        self._sizes = sizes

    def __call__(self, *values: Any) -> None:
        """Reads the values; one that is not of the usual kind has all read one by one."""
        try:
            if self._holds_all(values):
                return
        except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
            for groups in (*self._groups, *(hook.groups for hook in self._hooks)):
                fail_all(groups, error)
            return
        for i, (value, probe) in enumerate(zip(values, self._probes, strict=True)):
            if type(value) is Tensor and self._is_changed(i, value):
                every = (*probe.groups, *(probe.hook.groups if probe.hook else ()))
                fail_all(every, RuntimeError(CHANGED))
            else:
                probe.read(value)

    def _is_changed(self, place: int, value: Tensor) -> bool:
        """True if a tensor was changed in place since it was where its probe is."""
        if value.is_inference() or place not in self._sizes.versions:
            return False
        return value._version != self._sizes.versions[place]

    def _holds_all(self, values: tuple[Any, ...]) -> bool:
        """Holds all tensors, and has their gradients held; false if it did nothing."""
        if not self._are_as_noted(values):
            self._sizes.refuse()
            return False
        room, read, tapped = self._room, self._values(values), self._tapped(values)
        if len(room.tensors) + len(read) > MOST or len(room.hung) + len(tapped) > MOST:
            return False
        turn = self._turn() if tapped else None
        nodes = [*map(_node_of, tapped)]
        if tapped and (turn is None or None in nodes or any(map(_output_of, tapped))):
            return False
        if not all(map(may_be_held, filter(Tensor._is_view, read))):
            return False
        room.take_all([*map(Tensor.detach, read)], self._groups)
        if turn is not None:
            for node, owner in zip(nodes, turn.owners, strict=True):
                node._register_hook_dict(owner)
            room.await_gradients(turn.lists, nodes[-1], self._hung)
        return True

    def _are_as_noted(self, values: tuple[Any, ...]) -> bool:
        """True if all are small, and none was changed in place since its place in the graph."""
        try:
            versions = [*map(_version_of, values)] if _are_small(values) else []
        except RuntimeError:  # tensors of `torch.inference_mode` have none
            return False
        return bool(versions) and all(map(operator.eq, versions, self._sizes.versions.values()))

    def _turn(self) -> _Lists | None:
        """The lists for the gradients of this forward, if all of them can come to lists."""
        number = self._room.turn
        if UNKNOWN in map(_first_version_of, self._hooks):
            return None
        known = self._turns.get(number)
        if known is None:
            of = [turn for hook in self._hooks if (turn := hook.turn_at(number)) is not None]
            if len(of) < len(self._hooks):
                return None
            lists = {turn: turn.gradients for turn in of}
            known = self._turns[number] = _Lists(of, [turn.owner for turn in of], lists)
        for turn in known.of:
            turn.is_read = False
        return known


def _are_small(values: Iterable[Any]) -> bool:
    """True if all these are tensors that are measured together where they are small, and are."""
    values = [*values]
    return (
        _TENSOR.issuperset(map(type, values))
        and _SINGLE.issuperset(map(_dtype_of, values))
        and all(map(_is_on_cpu, values))
        and max(map(Tensor.numel, values)) <= SMALL
    )


def _shapes_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Shapes | None:
    """The inputs with shapes in place of tensors; None of inputs that hold more than these."""
    found: list[Any] = [*kwargs]
    for value in (*args, *kwargs.values()):
        if type(value) is Tensor:
            found.append(value.shape)
        elif type(value) in _PLAIN:
            found.append(value)
        else:
            return None
    return tuple(found)


def _picker(places: Iterable[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """A function that picks the items at some places."""
    chosen = [*places]
    if len(chosen) > 1:
        return operator.itemgetter(*chosen)
    return lambda values: tuple([values[i] for i in chosen])
