"""Readings in eager mode: values at once, gradients when autograd makes them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.utils.hooks import RemovableHandle

from taiyi_fx.passes.ir import State
from taiyi_fx.passes.probes.accumulate import SlotGroup, note_reason
from taiyi_fx.passes.probes.edited import has_edit, hook_first
from taiyi_fx.passes.probes.gradient_hook import fold_gradient
from taiyi_fx.passes.structure import alias_of, replace_tensor

Way = Literal["made here", "handed through", "held by another"]
"""A tensor's sharing at a probe, which decides how its gradient is read."""

PARAMETER = "the tensor there is a parameter itself; read its own gradient instead"
NOT_REACHED_OF_VIEW = "no gradient reached it, or it is a view that was changed in place"


def expects_gradient(tensor: Tensor, groups: tuple[SlotGroup, ...]) -> bool:
    """True if a gradient can reach a tensor; if not, the slots get the reason."""
    if isinstance(tensor, Parameter):
        note_reason(groups, PARAMETER)
    elif not torch.is_grad_enabled():
        note_reason(groups, "the module was called under torch.no_grad()")
    elif not tensor.requires_grad:
        note_reason(groups, "the tensor there does not require a gradient")
    else:
        return True
    return False


def tap(
    value: Any,
    tensor: Tensor,
    groups: tuple[SlotGroup, ...],
    way: Way,
) -> Any:
    """Reads the gradient of this use of a tensor: the value with a Function in its path.

    Args:
        value: The value at the probe.
        tensor: The tensor in it whose gradient is read.
        groups: The reductions and slots that take the gradient.
        way: How the tensor is shared there.
    """
    if way != "made here":
        # A Function would separate the tensor from its other name: if it were then changed in place
        # and used again under that name, gradients would be wrong without an error. A hook on the
        # tensor leaves the graph as it is.
        handle = _hook(tensor, functools.partial(fold_gradient, groups))
        if tensor.is_leaf:  # it outlives the step, and so would the hook
            groups[0][1][0].handles.append(handle)
        return value
    tapped = EagerTap.apply(tensor, groups)
    return tapped if value is tensor else replace_tensor(value, tensor, tapped)


def _hook(tensor: Tensor, fold: Callable[[Tensor], None]) -> RemovableHandle:
    _ = tensor.grad_fn  # otherwise torch 2.13 crashes where a view's base was changed in place
    return hook_first(tensor, fold) if has_edit(tensor) else tensor.register_hook(fold)


class WithInput:
    """A reduction of a pair that holds the input until the gradient comes."""

    takes_whole = True

    def __init__(self, reduction: Any, x: Tensor) -> None:
        self.reduction = reduction
        self.x: Tensor | None = x
        self.version = x._version

    def measure(self, g: Tensor) -> State:
        """The statistic of the pair; drops the input."""
        x, self.x = self.x, None
        if x is None:
            raise RuntimeError("backward ran twice, and the input was freed after the first")
        if x._version != self.version:
            raise RuntimeError("the input was changed in place after the call")
        return self.reduction.measure_pair(x, g)


class EagerTap(torch.autograd.Function):
    """The identity; its backward folds the gradient into slots.

    Returning ``x.detach()`` instead of ``x`` lets in-place operations follow, shares the version
    counter (so that real misuse is still reported) and keeps gradients bit-equal.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: tuple[SlotGroup, ...]) -> Tensor:
        """``x``; ``ctx`` is autograd's untyped context."""
        ctx.groups = groups
        return x.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """The gradient as it came."""
        fold_gradient(ctx.groups, grads[0])
        return grads[0], None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        """The tangent as it came, a view as the output is one."""
        return alias_of(tangents[0])
