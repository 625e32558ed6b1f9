"""Readings in compiled code: all that they leave is written in place, into cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from taiyi_fx.passes.cells import cells_in, kinds_of, pack, unpacked
from taiyi_fx.passes.eager_taps import PARAMETER
from taiyi_fx.passes.folds import SlotGroup, leave
from taiyi_fx.passes.ir import Reduction, State, has_fixed_shape
from taiyi_fx.passes.slots import Slot, allocate, come_next, where
from taiyi_fx.passes.structure import replace_tensor, stands_in


def read_value(x: Tensor, groups: tuple[SlotGroup, ...]) -> None:
    """Folds a value into the cells of its slots; a statistic of no fixed shape into the slots."""
    for reduction, slots in groups:
        for slot in slots:
            measured = reduction.measure(x)
            if has_fixed_shape(reduction):
                _fold_cells(reduction, _cells_for(slot, measured), measured)
            else:
                come_next(slot.key)
                slot.fold(measured)


def tap_gradient(value: Any, tensor: Tensor, groups: tuple[SlotGroup, ...]) -> Any:
    """The value with an autograd Function in the path of one of its tensors."""
    if isinstance(tensor, Parameter):
        leave(groups, PARAMETER)
        return value
    if not tensor.requires_grad or not torch.is_grad_enabled():
        return value
    if value is not tensor and not stands_in(value, tensor):
        why = "the tensor there is held by another: read its gradient without compiling"
        leave(groups, why)
        return value
    x = tensor.detach()
    reductions, cells = _cells_of_all(groups, lambda reduction: reduction.measure(x))
    return replace_tensor(value, tensor, CompiledTap.apply(tensor, reductions, *cells))


def tap_pair(value: Any, tensor: Tensor, x: Tensor, groups: tuple[SlotGroup, ...]) -> Any:
    """The same for reductions of a call's input and its output's gradient together."""
    if not tensor.requires_grad or not torch.is_grad_enabled():
        return value
    reductions, cells = _cells_of_all(groups, lambda reduction: reduction.measure_pair(x, tensor))
    return replace_tensor(value, tensor, CompiledPairTap.apply(tensor, x, reductions, *cells))


def _cells_of_all(
    groups: tuple[SlotGroup, ...], measure: Callable[[Any], State]
) -> tuple[tuple[Reduction, ...], list[Tensor]]:
    """The reductions that compiled code can fold gradients into, and the cells of each in turn."""
    reductions: list[Reduction] = []
    cells: list[Tensor] = []
    for reduction, slots in groups:
        for slot in slots:
            if has_fixed_shape(reduction):
                reductions.append(reduction)
                cells.extend(_cells_for(slot, measure(reduction)))
            else:
                slot.note = "gradients themselves are not kept in compiled code, only statistics"
    return tuple(reductions), cells


class CompiledTap(torch.autograd.Function):
    """The identity; its backward folds the gradient into cells, in place, for compiled code."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, reductions: tuple[Reduction, ...], *cells: Tensor) -> Tensor:
        """``x``; ``cells`` are those of each reduction in turn."""
        ctx.reductions, ctx.cells = reductions, cells
        return x.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        """The gradient as it came."""
        (g,) = grads
        _fold_all(ctx.reductions, ctx.cells, g, lambda reduction: reduction.measure(g))
        return g, None, *(None for _ in ctx.cells)


class CompiledPairTap(torch.autograd.Function):
    """The same for reductions of a call's input and its output's gradient together."""

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, x: Tensor, reductions: tuple[Any, ...], *cells: Tensor
    ) -> Tensor:
        """``y``; ``cells`` are those of each reduction in turn."""
        ctx.save_for_backward(x)
        ctx.reductions, ctx.cells = reductions, cells
        return y.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        """The gradient as it came."""
        (g,), (x,) = grads, ctx.saved_tensors
        _fold_all(ctx.reductions, ctx.cells, g, lambda reduction: reduction.measure_pair(x, g))
        return g, None, None, *(None for _ in ctx.cells)


def _fold_all(
    reductions: tuple[Any, ...],
    cells: tuple[Tensor, ...],
    g: Tensor,
    measure: Callable[[Any], State],
) -> None:
    # The compiler moves what does not depend on the gradient, such as a count of its elements,
    # into the forward, where the cells are read too late: so all of it depends on it.
    none = g.reshape(-1)[:1].isnan().sum().clamp(max=0)
    start = 0
    for reduction in reductions:
        measured = measure(reduction)
        end = start + cells_in(measured)
        _fold_cells(reduction, cells[start:end], measured, none)
        start = end


def _fold_cells(
    reduction: Reduction, cells: State, measured: State, none: Tensor | int = 0
) -> None:
    count, before = unpacked(cells, [(part.shape, part.dtype) for part in measured])
    merged = reduction.merge(before, measured)
    pack(cells, count + none + 1, where(count + none > 0, merged, measured))


def _cells_for(slot: Slot, measured: State) -> State:
    come_next(slot.key)
    # For gradients only the shapes of the measurement are used: the compiler drops its arithmetic.
    allocate(slot.key, kinds_of(measured), measured[0].device)
    assert slot.cells is not None
    return slot.cells
