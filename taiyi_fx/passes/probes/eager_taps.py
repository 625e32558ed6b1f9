"""Readings while Python runs: values at once, gradients when autograd comes to them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node
from torch.nn import Parameter
from torch.utils.hooks import RemovableHandle

from taiyi_fx.passes.ir import State
from taiyi_fx.passes.probes.accumulate import SlotGroup, fail_all, fold, leave
from taiyi_fx.passes.probes.edited import has_edit, hook_first
from taiyi_fx.passes.probes.held import MOST, SMALL, UNKNOWN, Held, are_held, is_batch, with_hook
from taiyi_fx.passes.structure import alias_of, replace_tensor

Way = Literal["made here", "given", "handed through", "held by another"]
"""How a tensor stands where its gradient is to be read."""

Tapping = Callable[..., Any]
"""Hands on a value, given what the call was given too, with its gradient read."""

PARAMETER = "the tensor there is a parameter itself; read its own gradient instead"
NOT_REACHED_OF_INPUT = "no gradient reached it, or the module changed it in place"
NOT_REACHED_OF_VIEW = "no gradient reached it, or it is a view that was changed in place"


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


class GradientHook:
    """Reads gradients of outputs of nodes of autograd's graph.

    A gradient is that of all uses of the tensor together, up to where it is changed in place, and
    the graph stays as it is.

    Args:
        groups: What gradients are folded into.
        may_wait: Whether nobody else is given them, as a sum's node would hand them on.

    Attributes:
        version: The one in which gradients arrive, once one has.
        gradients: Those that came and are not measured yet.
    """

    def __init__(self, groups: tuple[SlotGroup, ...], *, may_wait: bool = False) -> None:
        self.groups = groups
        self.version = UNKNOWN
        self.gradients: list[Tensor] = []
        self._fold = functools.partial(_fold_gradient, groups)
        self._room = held_by(groups) if may_wait else None
        self._take = self._fold if self._room is None else self._let_wait

    @functools.cached_property
    def _hooks(self) -> Tensor:
        """A tensor that has the hooks."""
        return with_hook(self._take)

    def at(self, node: Node, output: int, *, is_inside: bool) -> None:
        """Reads the gradient of an output of a node.

        Args:
            node: What made the tensor.
            output: Which of its outputs it is.
            is_inside: Whether nobody else hangs hooks on the tensor; those would come first.
        """
        if isinstance(node, BackwardCFunction):  # which may write into what it is given
            node.register_prehook(functools.partial(give_one_of, output, self._fold))
        elif is_inside and not output:
            # What `Tensor.register_hook` ends with, for a sixth of its time: the node gets the
            # hooks of a tensor, here of one that is kept for this.
            node._register_hook_dict(self._hooks)  # pyright: ignore[reportAttributeAccessIssue]
        else:
            node.register_prehook(functools.partial(give_one_of, output, self._take))

    def quick(self, careful: Callable[[Any, Any], Any], *, may_be_view: bool) -> Tapping:
        """What hangs on a tensor that nobody else hangs hooks on, in less time.

        Args:
            careful: Reads the gradient of what is not as usual.
            may_be_view: Whether a view is as usual.
        """
        room, gradients = self._room, self.gradients
        if room is None:
            return careful
        hung, holding = room.hung, with_hook(gradients.append)

        def tapped(value: Any, given: Any = None) -> Any:
            if (
                self.version is not UNKNOWN
                and type(value) is Tensor
                and value.numel() <= SMALL
                and value.dtype is torch.float32
                and value.is_cpu
                and (may_be_view or not value._is_view())
                and len(hung) < MOST
            ):
                node = value.grad_fn
                if node is not None and not value.output_nr:
                    node._register_hook_dict(holding)  # pyright: ignore[reportAttributeAccessIssue]
                    room.latest = node
                    room.hooks[self] = gradients
                    hung.append(None)
                    return value
            return careful(value, given)

        return tapped

    def _let_wait(self, g: Tensor) -> None:
        if is_batch(g, self.groups):
            return
        assert self._room is not None
        try:
            is_held = self._room.takes_gradient(g, self.groups)
        except Exception as error:  # noqa: BLE001 - never ends a training run; told at `track`
            fail_all(self.groups, error)
            return
        if is_held:
            self.version = g._version
        else:
            fold(g, self.groups)


def held_by(groups: tuple[SlotGroup, ...]) -> Held | None:
    """What holds small tensors until they are folded, if all reductions measure many at once."""
    return groups[0][1][0].board.held if are_held(groups) else None


def give_one_of(
    output: int, take: Callable[[Tensor], None], gradients: tuple[Tensor | None, ...]
) -> None:
    """Gives the gradient of one output of a node, where there is one."""
    g = gradients[output]
    if g is not None:
        take(g)


def _fold_gradient(groups: tuple[SlotGroup, ...], g: Tensor) -> None:
    if not is_batch(g, groups):
        fold(g, groups)


def tap(value: Any, tensor: Tensor, groups: tuple[SlotGroup, ...], way: Way) -> Any:
    """Reads the gradient of this use of a tensor: the value with a Function in its path."""
    if way == "given" and tensor.layout is torch.strided and not tensor.is_nested:
        # As a view it takes changes in place to all who know the tensor, at the price of this
        # reading. A hook on the tensor would see the gradient of its other uses, too.
        alias = alias_of(tensor)
        alias.register_hook(functools.partial(_fold_gradient, groups))
        groups[0][1][0].board.given[alias] = tensor
        return alias if value is tensor else replace_tensor(value, tensor, alias)
    if way != "made here":
        # A Function would part the tensor from its other name: were it then changed in place
        # and used again under that, gradients would be wrong without a word. A hook on the tensor
        # leaves the graph as it is.
        handle = _hook(tensor, functools.partial(_fold_gradient, groups))
        if tensor.is_leaf:  # it outlives the step: so would the hook
            groups[0][1][0].handles.append(handle)
        return value
    tapped = EagerTap.apply(tensor, groups)
    return tapped if value is tensor else replace_tensor(value, tensor, tapped)


def as_given(tensor: Tensor, groups: tuple[SlotGroup, ...]) -> Tensor:
    """The tensor that the model itself has where a tap gave it a view of all of it.

    An edit of its gradient parts the view from it: what is behind the edit is read there.
    """
    given = groups[0][1][0].board.given
    while given and tensor in given and not has_edit(tensor):
        tensor = given[tensor]
    return tensor


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
        _fold_gradient(ctx.groups, grads[0])
        return grads[0], None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        """The tangent as it came, a view as the output is one."""
        return alias_of(tangents[0])
