"""Readings while Python runs: values at once, gradients when autograd comes to them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor, is_legacy_batchedtensor
from torch.autograd.graph import Node
from torch.nn import Parameter
from torch.utils.hooks import RemovableHandle

from taiyi_fx.passes.edited import has_edit, hook_first
from taiyi_fx.passes.ir import State
from taiyi_fx.passes.parts import at_call, is_spread, ranks_of
from taiyi_fx.passes.slots import Slot
from taiyi_fx.passes.structure import replace_tensor

SlotGroup = tuple[Any, tuple[Slot, ...]]
"""One reduction, of a tensor or a pair, and every slot that it serves."""

Way = Literal["made here", "view", "handed through", "held by another"]
"""How a tensor stands where its gradient is to be read."""

PARAMETER = "the tensor there is a parameter itself; read its own gradient instead"
NOT_REACHED = "no gradient reached it"
NOT_REACHED_OF_VIEW = "no gradient reached it, or it is a view that was changed in place"


def fold(x: Tensor, groups: tuple[SlotGroup, ...]) -> None:
    """Folds a tensor into slots."""
    for reduction, slots in groups:
        try:
            part = x if type(x) is Tensor else _part(x, reduction, slots)
            if part is None:
                continue
            measured = reduction.measure(part)
            for slot in slots:
                slot.fold(measured)
                if slot.shape is None:
                    slot.shape = x.shape
        except Exception as error:  # noqa: BLE001 - never ends a training run; told at `track`
            for slot in slots:
                slot.fail(error)


def _part(x: Tensor, reduction: Any, slots: tuple[Slot, ...]) -> Tensor | None:
    """What this rank reduces of a tensor that may be spread over several."""
    if not is_spread(x):
        return x
    for slot in slots:
        slot.ranks = ranks_of(x)
    return at_call(x, reduction, is_joined=slots[0].is_joined)


def leave(groups: tuple[SlotGroup, ...], reason: str) -> None:
    """Notes why nothing may come of some readings."""
    for _, slots in groups:
        for slot in slots:
            slot.leave(reason)


def expects_gradient(tensor: Tensor, groups: tuple[SlotGroup, ...]) -> bool:
    """Whether a gradient can come to a tensor; if none can, its slots say why."""
    if isinstance(tensor, Parameter):
        leave(groups, PARAMETER)
    elif not torch.is_grad_enabled():
        leave(groups, "the module was called under torch.no_grad()")
    elif not tensor.requires_grad:
        leave(groups, "the tensor there does not require a gradient")
    else:
        return True
    return False


def watch(node: Node, output: int, groups: tuple[SlotGroup, ...]) -> None:
    """Reads the gradient of an output of a node of autograd's graph.

    It is that of all uses of the tensor together, up to where it is changed in place, and the
    graph stays as it is.
    """
    node.register_prehook(functools.partial(_fold_one_of, output, groups))


def _fold_one_of(
    output: int, groups: tuple[SlotGroup, ...], gradients: tuple[Tensor | None, ...]
) -> None:
    g = gradients[output]
    if g is not None:
        _fold_gradient(g, groups)


def _fold_gradient(g: Tensor, groups: tuple[SlotGroup, ...]) -> None:
    if is_functorch_wrapped_tensor(g) or is_legacy_batchedtensor(g):
        # Torch runs this once for many, and nothing that is made of it can be kept.
        leave(groups, "gradients were taken as a batch (is_grads_batched, vectorize or vmap)")
        return
    # With create_graph=True a gradient has a graph of its own.
    fold(g.detach() if g.requires_grad else g, groups)


def tap(value: Any, tensor: Tensor, groups: tuple[SlotGroup, ...], way: Way) -> Any:
    """Reads the gradient of this use of a tensor: the value with a Function in its path."""
    if way != "made here":
        # A Function would part the tensor from its other name: were it then changed in place
        # and used again under that, gradients would be wrong without a word. A hook on the tensor
        # leaves the graph as it is.
        handle = _hook(tensor, lambda g: _fold_gradient(g, groups))
        if tensor.is_leaf:  # it outlives the step: so would the hook
            groups[0][1][0].handles.append(handle)
        return value
    tapped = EagerTap.apply(tensor, groups)
    return tapped if value is tensor else replace_tensor(value, tensor, tapped)


def _hook(tensor: Tensor, fold: Callable[[Tensor], None]) -> RemovableHandle:
    _ = tensor.grad_fn  # else torch 2.13 crashes where a view's base was changed in place
    return hook_first(tensor, fold) if has_edit(tensor) else tensor.register_hook(fold)


class WithInput:
    """A reduction of a pair, given its first half until the gradient comes."""

    takes_whole = True

    def __init__(self, reduction: Any, x: Tensor) -> None:
        self.reduction = reduction
        self.x: Tensor | None = x
        self.version = x._version

    def measure(self, g: Tensor) -> State:
        """The statistic of the pair; the input is let go."""
        x, self.x = self.x, None
        if x is None:
            raise RuntimeError("backward came twice, and the input was let go after the first")
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
        _fold_gradient(grads[0], ctx.groups)
        return grads[0], None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        """The tangent as it came, a view as the output is one."""
        return tangents[0].view_as(tangents[0])
