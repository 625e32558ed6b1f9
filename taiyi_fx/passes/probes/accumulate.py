"""Folding tensors into slots, one at a time."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from taiyi_fx.passes.ir import Numbers, State, has_fast_path
from taiyi_fx.passes.probes.dtensor import at_call, is_spread, ranks_of, stand_in
from taiyi_fx.passes.probes.one_pass import elements_of
from taiyi_fx.passes.probes.slots import Slot
from taiyi_fx.passes.structure import Call, is_dressed

SlotGroup = tuple[Any, tuple[Slot, ...]]
"""One reduction, of a tensor or a pair, and every slot that it serves."""

NO_BACKWARD = "no backward ran through its call, or one that was compiled"
"""The reason why a reading of a backward is empty, as far as the forward shows."""

CLOCK = itertools.count()
"""The order in which slots are folded into."""


def fold(x: Tensor, groups: tuple[SlotGroup, ...]) -> None:
    """Folds a tensor into slots."""
    told = None
    for reduction, slots in groups:
        try:
            x = x.detach() if x.requires_grad else x
            part = x if type(x) is Tensor else part_of(x, reduction, slots)
            if part is None:
                continue
            is_scalar = has_fast_path(type(reduction), "measure_scalar")
            measured = reduction.measure_scalar(part) if is_scalar else None
            if measured is None and part is x and x.is_cuda and _share_a_pass(groups, reduction):
                told = told or elements_of(x)
                measured = told and reduction.of_elements(told)
            if measured is None:
                measured = reduction.measure(part)
                if type(part) is not Tensor:
                    refuse_classes(measured)
            for slot in slots:
                slot.fold(measured, x.shape)
                slot.order = next(CLOCK)
        except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
            fail(slots, error)


def refuse_classes(measured: Iterable[object]) -> None:
    """Refuses a statistic that cannot be put beside those of other tensors.

    Raises:
        TypeError: A part of it is of a class of tensors that is not torch's.
    """
    for part in measured:
        if isinstance(part, Tensor) and type(part) is not Tensor:
            kind = type(part).__name__
            raise TypeError(f"what is computed of a {kind} is a {kind} again, and no number")


def _share_a_pass(groups: tuple[SlotGroup, ...], reduction: Any) -> bool:
    """True if a reduction and another one take what one pass over a GPU's tensor tells."""
    kinds = [type(of_group) for of_group, _ in groups]
    is_one = has_fast_path(type(reduction), "of_elements")
    return is_one and sum(has_fast_path(kind, "of_elements") for kind in kinds) > 1


def fold_call(call: Call, result: Any, groups: tuple[SlotGroup, ...]) -> None:
    """Folds a call, with its result, into slots."""
    for reduction, slots in groups:
        try:
            with torch.no_grad():
                measured = reduction.measure_call(call, result)
            for slot in slots:
                slot.fold(measured)
                slot.order = next(CLOCK)
        except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
            fail(slots, error)


def begin_spans(groups: tuple[SlotGroup, ...]) -> None:
    """Marks the begin of a call in slots."""
    for reduction, slots in groups:
        for slot in slots:
            slot.first = reduction.mark()


def marks_of(groups: tuple[SlotGroup, ...]) -> tuple[int, ...]:
    """The marks of each reduction at this moment."""
    return tuple(reduction.mark() for reduction, _ in groups)


def fold_spans(groups: tuple[SlotGroup, ...], last: tuple[int, ...], result: Any) -> None:
    """Folds a call that has ended into slots.

    Args:
        groups: The reductions and slots.
        last: The marks of each reduction at the call's end.
        result: The call's result.
    """
    for (reduction, slots), ended in zip(groups, last, strict=True):
        for slot in slots:
            try:
                assert slot.first is not None, "a call begins before it ends"
                first, slot.first = slot.first, None
                if slot.reading.site.port == "backward":
                    take = functools.partial(_fold_state, slot)
                    slot.note_reason(reduction.watch(first, ended, result, take) or NO_BACKWARD)
                else:
                    _fold_state(slot, reduction.measure_span(first, ended, result))
            except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
                fail((slot,), error)


def _fold_state(slot: Slot, measured: State | Numbers | Callable[[], Numbers]) -> None:
    if callable(measured):
        slot.fold_later(measured)
    else:
        slot.fold(measured)
    slot.order = next(CLOCK)


def fail(slots: tuple[Slot, ...], error: Exception) -> None:
    """Records an error in slots, which `track` warns of."""
    for slot in slots:
        slot.fail(error)


def fail_all(groups: tuple[SlotGroup, ...], error: Exception) -> None:
    """The same for all slots of a tensor."""
    for _, slots in groups:
        fail(slots, error)


def note_reason(groups: tuple[SlotGroup, ...], reason: str) -> None:
    """Records in slots why some readings may have no value."""
    for _, slots in groups:
        for slot in slots:
            slot.note_reason(reason)


def part_of(x: Tensor, reduction: Any, slots: tuple[Slot, ...]) -> Tensor | None:
    """The part of a tensor, which several ranks may hold in parts, that this rank reduces."""
    if not is_spread(x):
        return _plain(x)
    for slot in slots:
        slot.ranks = ranks_of(x)
    return at_call(x, reduction, is_joined=slots[0].is_joined)


def like_part_of(x: Tensor, reduction: Any, slots: tuple[Slot, ...]) -> Tensor:
    """A tensor with the shape and type of the part that ranks reduce, made without a collective."""
    if not is_spread(x):
        return _plain(x)
    return stand_in(x, reduction, is_joined=slots[0].is_joined)


def _plain(x: Tensor) -> Tensor:
    if not is_dressed(x):
        return x
    with torch._C.DisableTorchFunctionSubclass():
        return x.as_subclass(Tensor)
