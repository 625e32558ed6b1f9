"""Readings in compiled code: all that they leave is written in place, into cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Parameter

from taiyi_fx.passes.cells import cells_in, kinds_of, pack, unpacked
from taiyi_fx.passes.eager_taps import PARAMETER
from taiyi_fx.passes.ir import Pick, Reduction, State, has_fixed_shape
from taiyi_fx.passes.slots import Board, allocate, cell_name, come_next, where
from taiyi_fx.passes.structure import find_tensor, replace_tensor, stands_in

What = Literal["value", "gradient", "pair"]
NamedGroup = tuple[str, tuple[str, ...]]
"""By their names on the board, one reduction and the slots that it serves."""
Steps = tuple[tuple[What, Pick, tuple[NamedGroup, ...]], ...]
"""What a probe reads, of which tensor."""

BACKWARD_IS_COMPILED = (
    "compiled autograd cannot write what is kept of gradients: read them with "
    "torch._dynamo.config.compiled_autograd switched off"
)


class CompiledProbes:
    """Every probe of compiled code: the code says by constants what is to be read.

    Nothing has to be checked of constants when the code is called.

    Args:
        board: Where the names lead.
    """

    def __init__(self, board: Board) -> None:
        # torch.fx names a called object in the generated code by these two.
        self.__name__ = "probes"
        self.__module__ = "taiyi_fx"
        self.board = board

    def __call__(self, value: Any, steps: Steps, given: Any = None) -> Any:
        """Does what a probe does, for a value and what the call was given."""
        for what, pick, groups in steps:
            tensor = find_tensor(value, None if what == "pair" else pick)
            if tensor is None:
                continue
            if what == "value":
                self._read(tensor.detach(), groups)
            elif what == "gradient":
                value = self._with_gradient_read(value, tensor, groups)
            else:
                x = find_tensor(given, pick)
                if x is not None:
                    value = self._with_pair_read(value, tensor, x.detach(), groups)
        return value

    def _read(self, x: Tensor, groups: tuple[NamedGroup, ...]) -> None:
        for reduction, slot in self._each(groups):
            measured = reduction.measure(x)
            if has_fixed_shape(reduction):
                _fold_cells(reduction, self._cells(slot, measured), measured)
            else:
                come_next(slot)
                getattr(self.board, slot).fold(measured)

    def _with_gradient_read(
        self, value: Any, tensor: Tensor, groups: tuple[NamedGroup, ...]
    ) -> Any:
        if isinstance(tensor, Parameter):
            self._leave(groups, PARAMETER)
            return value
        if not self._expects_gradient(tensor, groups):
            return value
        if value is not tensor and not stands_in(value, tensor):
            why = "the tensor there is held by another: read its gradient without compiling"
            self._leave(groups, why)
            return value
        x = tensor.detach()
        reductions, cells = self._cells_of_all(groups, lambda reduction: reduction.measure(x))
        return replace_tensor(value, tensor, CompiledTap.apply(tensor, reductions, *cells))

    def _with_pair_read(
        self, value: Any, tensor: Tensor, x: Tensor, groups: tuple[NamedGroup, ...]
    ) -> Any:
        if not self._expects_gradient(tensor, groups):
            return value
        reductions, cells = self._cells_of_all(
            groups, lambda reduction: reduction.measure_pair(x, tensor)
        )
        return replace_tensor(value, tensor, CompiledPairTap.apply(tensor, x, reductions, *cells))

    def _expects_gradient(self, tensor: Tensor, groups: tuple[NamedGroup, ...]) -> bool:
        if not tensor.requires_grad or not torch.is_grad_enabled():
            return False
        if _is_backward_compiled():
            self._leave(groups, BACKWARD_IS_COMPILED)
            return False
        return True

    def _cells_of_all(
        self, groups: tuple[NamedGroup, ...], measure: Callable[[Any], State]
    ) -> tuple[tuple[Reduction, ...], list[Tensor]]:
        """The reductions that can fold gradients here, and the cells of each in turn."""
        reductions: list[Reduction] = []
        cells: list[Tensor] = []
        for reduction, slot in self._each(groups):
            if has_fixed_shape(reduction):
                reductions.append(reduction)
                cells.extend(self._cells(slot, measure(reduction)))
            else:
                why = "gradients themselves are not kept in compiled code, only statistics"
                getattr(self.board, slot).note = why
        return tuple(reductions), cells

    def _cells(self, slot: str, measured: State) -> State:
        come_next(slot)
        # For gradients only the shapes of the measurement are used: the compiler drops its
        # arithmetic.
        allocate(slot, kinds_of(measured), measured[0].device)
        return tuple(getattr(self.board, cell_name(slot, i)) for i in range(cells_in(measured)))

    def _leave(self, groups: tuple[NamedGroup, ...], why: str) -> None:
        for _, slot in self._each(groups):
            getattr(self.board, slot).leave(why)

    def _each(self, groups: tuple[NamedGroup, ...]) -> list[tuple[Any, str]]:
        return [(getattr(self.board, name), slot) for name, slots in groups for slot in slots]


@torch.compiler.assume_constant_result
def _is_backward_compiled() -> bool:
    # It takes the cells for saved tensors, which they are not, and the backward pass would end.
    return bool(torch._dynamo.config.compiled_autograd)


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
    # into the forward, where the cells are read too early: so what is read of them depends on it.
    none = g.reshape(-1)[:0].any()
    start = 0
    for reduction in reductions:
        measured = measure(reduction)
        end = start + cells_in(measured)
        _fold_cells(reduction, cells[start:end], measured, none)
        start = end


def _fold_cells(
    reduction: Reduction, cells: State, measured: State, none: Tensor | None = None
) -> None:
    found = cells if none is None else tuple(cell + none for cell in cells)
    count, before = unpacked(found, [(part.shape, part.dtype) for part in measured])
    merged = reduction.merge(before, measured)
    pack(cells, count + 1, where(count > 0, merged, measured))
