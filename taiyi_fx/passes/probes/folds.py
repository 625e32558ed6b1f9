"""Folding tensors into slots, at once or, of small ones, together when backward ends."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import Numbers, State, quick_way
from taiyi_fx.passes.probes.parts import at_call, is_spread, ranks_of
from taiyi_fx.passes.structure import is_dressed

if TYPE_CHECKING:
    from taiyi_fx.passes.probes.slots import Slot

SlotGroup = tuple[Any, tuple["Slot", ...]]
"""One reduction, of a tensor or a pair, and every slot that it serves."""

CLOCK = itertools.count()
"""The order in which slots are folded into."""

_NONE = -1
"""The number of no backward pass."""
_SMALL = 4096
_LARGEST = 4 * _SMALL
"""So many bytes may what a tensor is a view of have."""
_MOST = 64
"""So many tensors wait at most, of so many elements: a megabyte."""


def fold(x: Tensor, groups: tuple[SlotGroup, ...]) -> None:
    """Folds a tensor into slots."""
    x = x.detach() if x.requires_grad else x
    for reduction, slots in groups:
        try:
            part = x if type(x) is Tensor else _part(x, reduction, slots)
            if part is None:
                continue
            measured = _measured(reduction, part)
            for slot in slots:
                slot.fold(measured, x.shape)
                slot.order = next(CLOCK)
        except Exception as error:  # noqa: BLE001 - never ends a training run; told at `track`
            fail(slots, error)


def fail(slots: tuple[Slot, ...], error: Exception) -> None:
    """Has slots say at `track` what went wrong."""
    for slot in slots:
        slot.fail(error)


def leave(groups: tuple[SlotGroup, ...], reason: str) -> None:
    """Notes why nothing may come of some readings."""
    for _, slots in groups:
        for slot in slots:
            slot.leave(reason)


def _measured(reduction: Any, x: Tensor) -> State | Numbers:
    in_numbers = quick_way(reduction, "in_numbers")
    found = None if in_numbers is None else in_numbers(x)
    return reduction.measure(x) if found is None else found


def _part(x: Tensor, reduction: Any, slots: tuple[Slot, ...]) -> Tensor | None:
    """What this rank reduces of a tensor that may be spread over several."""
    if is_dressed(x):
        with torch._C.DisableTorchFunctionSubclass():
            return x.as_subclass(Tensor)
    if not is_spread(x):
        return x
    for slot in slots:
        slot.ranks = ranks_of(x)
    return at_call(x, reduction, is_joined=slots[0].is_joined)


class _Alike(NamedTuple):
    """Some of the tensors that wait: of one shape, for one reduction.

    Attributes:
        reduction: Measures them.
        shape: Of each.
        places: Where they stand among all.
        slots: What each is folded into.
    """

    reduction: Any
    shape: torch.Size
    places: list[int]
    slots: list[tuple[Slot, ...]]


class Waiting:
    """Small tensors, until the backward pass ends.

    A call of torch takes longer than the sums of a small tensor: those of one shape are measured
    by one. Only what nothing is known to change in the meantime may wait.
    """

    def __init__(self) -> None:
        self._tensors: list[Tensor] = []
        self._shapes: list[torch.Size] = []
        self._versions: list[int] = []
        self._groups: list[tuple[SlotGroup, ...]] = []
        self._ends_with = _NONE
        # The last arrangement, which is nearly always the next one too.
        self._arranged_groups: list[tuple[SlotGroup, ...]] = []
        self._arranged_shapes: list[torch.Size] = []
        self._arranged: list[_Alike] = []

    def takes(self, x: Tensor, groups: tuple[SlotGroup, ...]) -> bool:
        """Lets a tensor wait if it is small."""
        if x.numel() > _SMALL or type(x) is not Tensor or x.dtype is not torch.float32:
            return False
        if not x.is_cpu or x.is_neg() or x.layout is not torch.strided:
            return False
        if x._is_view() and x.untyped_storage().nbytes() > _LARGEST:
            return False
        try:
            shape, version = x.shape, x._version
        except RuntimeError:  # a nested tensor has no shape, one of inference mode no version
            return False
        self._shapes.append(shape)
        self._versions.append(version)
        # Its graph, which may hold much more than a megabyte, does not wait with it.
        self._tensors.append(x.detach() if x.requires_grad else x)
        self._groups.append(groups)
        if len(self._tensors) >= _MOST:
            self.measure()
        return True

    def takes_gradient(self, g: Tensor, groups: tuple[SlotGroup, ...]) -> bool:
        """The same of a gradient; the running backward pass then ends with all measured."""
        if torch.compiler.is_compiling():  # a backward pass under compiled autograd
            return False
        running = torch._C._current_graph_task_id()
        if self._ends_with != running:  # another may have failed, or have this one inside it
            self._ends_with = running
            torch.autograd.Variable._execution_engine.queue_callback(self.measure)
        return self.takes(g, groups)

    def measure(self) -> None:
        """Measures all that wait."""
        self._ends_with = _NONE
        if not self._tensors:
            return
        tensors, shapes = self._tensors, self._shapes
        versions, groups = self._versions, self._groups
        self.clear()
        if [x._version for x in tensors] != versions:
            tensors, groups = _unchanged(tensors, versions, groups)
            shapes = [x.shape for x in tensors]
        with torch.no_grad():
            for alike in self._arrange(shapes, groups):
                _fold_alike(alike, [tensors[i] for i in alike.places])

    def clear(self) -> None:
        """Lets all go."""
        self._tensors, self._shapes, self._versions, self._groups = [], [], [], []
        self._ends_with = _NONE

    def _arrange(
        self, shapes: list[torch.Size], groups: list[tuple[SlotGroup, ...]]
    ) -> list[_Alike]:
        if groups != self._arranged_groups or shapes != self._arranged_shapes:
            found: dict[tuple[int, torch.Size], _Alike] = {}
            for i, (shape, its_groups) in enumerate(zip(shapes, groups, strict=True)):
                for reduction, slots in its_groups:
                    key = id(reduction), shape
                    alike = found.setdefault(key, _Alike(reduction, shape, [], []))
                    alike.places.append(i)
                    alike.slots.append(slots)
            self._arranged = list(found.values())
            self._arranged_groups, self._arranged_shapes = groups, shapes
        return self._arranged


def _unchanged(
    tensors: list[Tensor], versions: list[int], groups: list[tuple[SlotGroup, ...]]
) -> tuple[list[Tensor], list[tuple[SlotGroup, ...]]]:
    kept = [i for i, x in enumerate(tensors) if x._version == versions[i]]
    for i in set(range(len(tensors))).difference(kept):
        for _, slots in groups[i]:
            fail(slots, RuntimeError("the tensor was changed in place before it was read"))
    return [tensors[i] for i in kept], [groups[i] for i in kept]


def waiting_room(groups: tuple[SlotGroup, ...]) -> Waiting | None:
    """Where tensors wait for others, if all these reductions measure many at once."""
    if all(quick_way(reduction, "measure_alike") for reduction, _ in groups):
        return groups[0][1][0].board.waiting
    return None


def _fold_alike(alike: _Alike, tensors: list[Tensor]) -> None:
    reduction, shape, _, every = alike
    try:
        found = reduction.measure_alike(tensors)
    except Exception:  # noqa: BLE001 - whose it is shows when each is measured alone
        for x, slots in zip(tensors, every, strict=True):
            fold(x, ((reduction, slots),))
        return
    for measured, slots in zip(found, every, strict=True):
        try:
            for slot in slots:
                slot.fold(measured, shape)
        except Exception as error:  # noqa: BLE001 - never ends a training run; told at `track`
            fail(slots, error)
