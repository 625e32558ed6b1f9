"""Readings in compiled code: all that they leave is written in place, into cells."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Parameter

from taiyi_fx.passes.ir import Pick
from taiyi_fx.passes.probes.cells import kinds_of
from taiyi_fx.passes.probes.eager_taps import PARAMETER
from taiyi_fx.passes.probes.operators import OPERATORS
from taiyi_fx.passes.probes.slots import Board, allocate, come_next, take_refusal
from taiyi_fx.passes.structure import alias_of, find_tensor, replace_tensor, stands_in

What = Literal["value", "gradient", "pair"]
Place = Literal["made here", "shared", "given"]
"""Whether nobody else knows the tensor, or anybody may; or it is what a module is given."""
Into = tuple[str, bool, str]
"""A reduction's address, whether its states have a fixed shape, and the slot to fold into."""
Steps = tuple[tuple[What, Place, Pick, tuple[Into, ...]], ...]
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
        for what, place, pick, into in steps:
            tensor = find_tensor(value, None if what == "pair" else pick)
            if tensor is None:
                continue
            if what == "value":
                self._read(tensor.detach(), into)
            elif what == "gradient":
                value = self._with_gradient_read(value, tensor, None, place, into)
            elif (x := find_tensor(given, pick)) is not None:
                value = self._with_gradient_read(value, tensor, x.detach(), place, into)
        return value

    def _read(self, x: Tensor, into: tuple[Into, ...]) -> None:
        for reduction, has_fixed_shape, slot in into:
            measured = self._measured(x, None, reduction, slot)
            if not has_fixed_shape and measured:
                come_next(slot)
                getattr(self.board, slot).fold(tuple(measured))
            elif measured:
                OPERATORS.fold(self._cells(slot, measured), measured, reduction)

    def _with_gradient_read(
        self, value: Any, y: Tensor, x: Tensor | None, place: Place, into: tuple[Into, ...]
    ) -> Any:
        """``value``, with the gradient of its ``y`` read, beside ``x`` if that is given."""
        why = self._why_not(value, y, place)
        if why is not None:
            self._leave(into, why)
        if why is not None or not y.requires_grad or not torch.is_grad_enabled():
            return value
        reductions, cells = self._allocated(y, x, into)
        if not cells:
            return value
        # A view of what is given: a change of it in place reaches all who know it. A hook on itself
        # would see the gradient of its other uses, too.
        alias = alias_of(y) if place == "given" else y
        tapped = CompiledTap.apply(alias, x, reductions, *cells)
        if place == "made here":
            return replace_tensor(value, y, tapped)
        # A Function would part the tensor from its other names: were it then changed in place and
        # used under these, gradients would be wrong without a word.
        OPERATORS.watch(alias, tapped, x, cells, reductions)
        return value if alias is y else replace_tensor(value, y, alias)

    def _why_not(self, value: Any, y: Tensor, place: Place) -> str | None:
        if isinstance(y, Parameter):
            return PARAMETER
        if y.requires_grad and torch.is_grad_enabled() and _is_backward_compiled():
            return BACKWARD_IS_COMPILED
        if place != "shared" and value is not y and not stands_in(value, y):
            return "the tensor there is held by another: read its gradient without compiling"
        return None

    def _allocated(
        self, y: Tensor, x: Tensor | None, into: tuple[Into, ...]
    ) -> tuple[list[str], list[Tensor]]:
        """The reductions that can be taken of a gradient, and the cells of all of them."""
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
        return reductions, cells

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
        return OPERATORS.same(y)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        """The gradient as it came."""
        (g,), (x,) = grads, ctx.saved_tensors
        OPERATORS.fold_gradient(ctx.cells, g, x, ctx.reductions)
        return g, None, None, *(None for _ in ctx.cells)
