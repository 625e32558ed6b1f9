"""Readings in compiled code: all that they leave is written in place, into cells."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Parameter

from taiyi_fx.passes.cells import kinds_of
from taiyi_fx.passes.eager_taps import PARAMETER
from taiyi_fx.passes.ir import Pick
from taiyi_fx.passes.operators import OPERATORS
from taiyi_fx.passes.slots import Board, allocate, come_next, take_refusal
from taiyi_fx.passes.structure import find_tensor, replace_tensor, stands_in, tensors_in

What = Literal["value", "gradient", "gradient of what was made", "pair"]
Into = tuple[str, bool, str]
"""A reduction's address, whether its states have a fixed shape, and the slot to fold into."""
Steps = tuple[tuple[What, Pick, tuple[Into, ...]], ...]
"""What a probe reads, of which tensor."""

BACKWARD_IS_COMPILED = (
    "compiled autograd cannot write what is kept of gradients: read them with "
    "torch._dynamo.config.compiled_autograd switched off"
)
HANDED_ON = (
    "the module hands on its input, whose other uses compiled code does not see: read its gradient "
    "without compiling"
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
        for what, pick, into in steps:
            tensor = find_tensor(value, None if what == "pair" else pick)
            if tensor is None:
                continue
            if what == "value":
                self._read(tensor.detach(), into)
            elif what == "gradient of what was made" and _is_among(tensor, given):
                self._leave(into, HANDED_ON)
            elif what != "pair":
                value = self._with_gradient_read(value, tensor, into)
            else:
                x = find_tensor(given, pick)
                if x is not None and self._expects_gradient(tensor, into):
                    tapped = self._tapped(tensor, x.detach(), into)
                    value = replace_tensor(value, tensor, tapped)
        return value

    def _read(self, x: Tensor, into: tuple[Into, ...]) -> None:
        for reduction, has_fixed_shape, slot in into:
            measured = self._measured(x, None, reduction, slot)
            if not has_fixed_shape and measured:
                come_next(slot)
                getattr(self.board, slot).fold(tuple(measured))
            elif measured:
                OPERATORS.fold(self._cells(slot, measured), measured, reduction)

    def _with_gradient_read(self, value: Any, tensor: Tensor, into: tuple[Into, ...]) -> Any:
        if isinstance(tensor, Parameter):
            self._leave(into, PARAMETER)
            return value
        if not self._expects_gradient(tensor, into):
            return value
        if value is not tensor and not stands_in(value, tensor):
            why = "the tensor there is held by another: read its gradient without compiling"
            self._leave(into, why)
            return value
        return replace_tensor(value, tensor, self._tapped(tensor, None, into))

    def _expects_gradient(self, tensor: Tensor, into: tuple[Into, ...]) -> bool:
        if not tensor.requires_grad or not torch.is_grad_enabled():
            return False
        if _is_backward_compiled():
            self._leave(into, BACKWARD_IS_COMPILED)
            return False
        return True

    def _tapped(self, y: Tensor, x: Tensor | None, into: tuple[Into, ...]) -> Tensor:
        """``y``, with its gradient read, beside ``x`` if that is given."""
        reductions: list[str] = []
        cells: list[Tensor] = []
        like = y.detach()
        for reduction, has_fixed_shape, slot in into:
            if not has_fixed_shape:
                why = "gradients themselves are not kept in compiled code, only statistics"
                getattr(self.board, slot).leave(why)
                continue
            # Only the shapes of the measurement are used: the compiler drops its arithmetic.
            first, second = (like, None) if x is None else (x, like)
            measured = self._measured(first, second, reduction, slot)
            if measured:
                reductions.append(reduction)
                cells += self._cells(slot, measured)
        return CompiledTap.apply(y, x, reductions, *cells) if cells else y

    def _measured(
        self, x: Tensor, gradient: Tensor | None, reduction: str, slot: str
    ) -> list[Tensor]:
        measured = OPERATORS.measure(x, gradient, reduction)
        if not measured:
            take_refusal(slot, reduction)
            getattr(self.board, slot).fail_as_refused()
        return measured

    def _cells(self, slot: str, measured: list[Tensor]) -> list[Tensor]:
        names = allocate(slot, kinds_of(tuple(measured)), measured[0].device)
        return [getattr(self.board, name) for name in names]

    def _leave(self, into: tuple[Into, ...], why: str) -> None:
        for _, _, slot in into:
            getattr(self.board, slot).leave(why)


def _is_among(tensor: Tensor, given: Any) -> bool:
    return any(tensor is other for other in tensors_in(given))


@torch.compiler.assume_constant_result
def _is_backward_compiled() -> bool:
    # It takes the cells for saved tensors, which they are not, and the backward pass would end.
    return bool(torch._dynamo.config.compiled_autograd)


class CompiledTap(torch.autograd.Function):
    """The identity; its backward folds the gradient into cells, in place."""

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, x: Tensor | None, reductions: list[str], *cells: Tensor
    ) -> Tensor:
        """``y``; ``cells`` are those of each reduction in turn, which may ask for ``x``, too."""
        ctx.save_for_backward(x)
        ctx.reductions, ctx.cells = reductions, cells
        return y.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        """The gradient as it came."""
        (g,), (x,) = grads, ctx.saved_tensors
        OPERATORS.fold_gradient(ctx.cells, g, x, ctx.reductions)
        return g, None, None, *(None for _ in ctx.cells)
