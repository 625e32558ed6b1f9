"""Small tensors, held while a forward or a backward runs and then measured by one call.

A call of torch takes longer than the sums of a small tensor, and a function of Python that autograd
calls takes longer than both. So what is small is only held, gradients by a builtin: the hook of a
node is `list.append`. A hook does so from its second gradient on; its first one comes to a
function, which sees in which version gradients of its tensor arrive. One that then arrives in that
version, and still has it when backward ends, was not changed in between.

What was measured stays a few vectors until somebody looks at a slot: nearly always `track` takes
the vectors as they are, and no slot is looked at.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor, is_legacy_batchedtensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node

from taiyi_fx.passes.ir import fast_path
from taiyi_fx.passes.probes.accumulate import SlotGroup, fail, fail_all, fold, leave
from taiyi_fx.passes.probes.measured import Alike, Arrangement, Measured, arrange
from taiyi_fx.passes.probes.slots import Slot

Tapping = Callable[..., Any]
"""Hands on a value, given what the call was given too, with its gradient read."""

SMALL = 4096
"""So many elements a tensor has at most that is held."""
MOST = 256
"""So many are held at most: four megabytes."""

NOT_REACHED = "no gradient reached it"
UNKNOWN = -1
"""The version of a gradient where none has come yet."""
_LARGEST = 4 * SMALL
"""So many bytes may what a tensor is a view of have."""
_NONE = -1
"""The number of no backward pass."""


class Held:
    """Small tensors of a forward or a backward that is under way.

    Only what nothing is known to change in the meantime is held.

    Attributes:
        tensors: What is held.
        versions: Of each, when it came.
        groups: What each is to be folded into.
        measured: What was measured and is in no slot yet.
        hooks: Those whose gradients a builtin holds, in this step, with the gradients.
        earlier: The same of the step before, whose backward may still come.
        hung: One entry for each gradient that may come to them.
        latest: The node of the latest of them, which backward comes to first.
    """

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.versions: list[int] = []
        self.groups: list[tuple[SlotGroup, ...]] = []
        self.measured: list[Measured] = []
        self.hooks: dict[GradientHook, list[Tensor]] = {}
        self.earlier: dict[GradientHook, list[Tensor]] = {}
        self.hung: list[None] = []
        self.latest: Node | None = None
        self._ends_with = _NONE
        self._ending = with_hook(self._end_with_this_backward)
        # The last arrangements, which are nearly always the next ones too.
        self._arranged: dict[int, Arrangement] = {}

    def takes(self, x: Tensor, groups: tuple[SlotGroup, ...]) -> bool:
        """Holds a tensor if it is small and of the kind that is measured together."""
        if x.numel() > SMALL or type(x) is not Tensor or x.dtype is not torch.float32:
            return False
        if not x.is_cpu or x.is_neg() or x.layout is not torch.strided or x.is_nested:
            return False
        if x._is_view() and x.untyped_storage().nbytes() > _LARGEST:
            return False
        if x.is_inference():  # which has no version
            return False
        # Its graph, which may hold much more than a megabyte, is not held with it.
        held = x.detach() if x.requires_grad else x
        self.tensors.append(held)
        self.versions.append(x._version)
        self.groups.append(groups)
        if len(self.tensors) >= MOST:
            self.measure()
        return True

    def takes_gradient(self, g: Tensor, groups: tuple[SlotGroup, ...]) -> bool:
        """The same of a gradient; the running backward pass then ends with all measured."""
        if torch.compiler.is_compiling():  # a backward pass under compiled autograd
            return False
        self._end_with_this_backward()
        return self.takes(g, groups)

    def _end_with_this_backward(self, _: Any = None) -> None:
        running = torch._C._current_graph_task_id()
        if self._ends_with != running:  # another may have failed, or have this one inside it
            self._ends_with = running
            torch.autograd.Variable._execution_engine.queue_callback(self.measure)

    def end_forward(self) -> None:
        """Has the backward of the forward that ends now end with all measured."""
        if self.latest is not None:
            self.latest._register_hook_dict(self._ending)  # pyright: ignore[reportAttributeAccessIssue]
            self.latest = None

    def measure(self) -> None:
        """Measures all that is held."""
        self._ends_with = _NONE
        self.hung.clear()
        if not (self.tensors or any(self.hooks.values()) or any(self.earlier.values())):
            return
        tensors, versions, groups = self._taken()
        try:
            self._measure_all(tensors, versions, groups)
        except Exception as error:  # noqa: BLE001 - never ends a training run; told at `track`
            for its_groups in groups:
                fail_all(its_groups, error)

    def _measure_all(
        self, tensors: list[Tensor], versions: list[int], groups: list[tuple[SlotGroup, ...]]
    ) -> None:
        with torch.no_grad():
            if [x._version for x in tensors] != versions or _has_batch(tensors):
                tensors, groups = self._sound(tensors, versions, groups)
            try:
                arranged = self._arrange(tensors, groups)
            except RuntimeError:  # a nested tensor has no shape
                for x, its_groups in zip(tensors, groups, strict=True):
                    fold(x, its_groups)
                return
            for alike in arranged:
                is_all = len(alike.places) == len(tensors)
                self._measure(alike, tensors if is_all else [tensors[i] for i in alike.places])

    def _measure(self, alike: Alike, tensors: list[Tensor]) -> None:
        try:
            states = alike.reduction.measure_many(tensors)
        except Exception:  # noqa: BLE001 - whose it is shows when each is measured alone
            for x, slots in zip(tensors, alike.slots, strict=True):
                fold(x, ((alike.reduction, slots),))
        else:
            self.measured.append(Measured(alike, states))

    def settle(self) -> None:
        """Folds all that was measured into slots."""
        measured, self.measured = self.measured, []
        for some in measured:
            some.fold()

    def _taken(self) -> tuple[list[Tensor], list[int], list[tuple[SlotGroup, ...]]]:
        """All tensors, their versions and what they are to be folded into; they are let go."""
        tensors, versions, groups = [*self.tensors], [*self.versions], [*self.groups]
        self.tensors.clear()
        self.versions.clear()
        self.groups.clear()
        for hook, gradients in itertools.chain(self.hooks.items(), self.earlier.items()):
            for g in gradients:
                tensors.append(g)
                versions.append(hook.version)
                groups.append(hook.groups)
            gradients.clear()
        return tensors, versions, groups

    def _sound(
        self, tensors: list[Tensor], versions: list[int], groups: list[tuple[SlotGroup, ...]]
    ) -> tuple[list[Tensor], list[tuple[SlotGroup, ...]]]:
        """Those that can be measured; the slots of the others are told why not."""
        kept: list[int] = []
        for i, x in enumerate(tensors):
            if is_batch(x, groups[i]):
                continue
            if x._version == versions[i]:
                kept.append(i)
                continue
            for _, slots in groups[i]:
                fail(slots, RuntimeError("the tensor was changed in place before it was read"))
            for hook in {**self.earlier, **self.hooks}:
                hook.version = UNKNOWN  # their next gradients are looked at as they come
        return [tensors[i] for i in kept], [groups[i] for i in kept]

    def why_nothing(self, slot: Slot) -> str | None:
        """Why nothing came to a slot, if a gradient of a hook might have."""
        slots = (slots for hook in self.hooks for _, slots in hook.groups)
        return NOT_REACHED if any(slot in some for some in slots) else None

    def let_go(self) -> None:
        """Lets go of all that came."""
        self.tensors.clear()
        self.versions.clear()
        self.groups.clear()
        self.measured.clear()
        for gradients in self.hooks.values():
            gradients.clear()
        self.hung.clear()
        self.latest = None
        self._ends_with = _NONE

    def clear(self) -> None:
        """The same where a step ends: gradients that come later belong to the next."""
        self.let_go()
        self.earlier, self.hooks = self.hooks, {}

    def _arrange(self, tensors: list[Tensor], groups: list[tuple[SlotGroup, ...]]) -> list[Alike]:
        last = self._arranged.get(len(groups))
        if last is None or not last.fits(tensors, groups):
            last = self._arranged[len(groups)] = arrange([x.shape for x in tensors], groups)
        return last.alike


class GradientHook:
    """Reads gradients of outputs of nodes of autograd's graph.

    A gradient is that of all uses of the tensor together, up to where it is changed in place, and
    the graph stays as it is.

    Args:
        groups: What gradients are folded into.
        room: Where small ones may wait, if nobody else is given them, as a sum's node would hand
            them on.

    Attributes:
        version: The one in which gradients arrive, once one has.
        gradients: Those that came and are not measured yet.
    """

    def __init__(self, groups: tuple[SlotGroup, ...], room: Held | None = None) -> None:
        self.groups = groups
        self.version = UNKNOWN
        self.gradients: list[Tensor] = []
        self._fold = functools.partial(fold_gradient, groups)
        self._room = room
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


def give_one_of(
    output: int, take: Callable[[Tensor], None], gradients: tuple[Tensor | None, ...]
) -> None:
    """Gives the gradient of one output of a node, where there is one."""
    g = gradients[output]
    if g is not None:
        take(g)


def fold_gradient(groups: tuple[SlotGroup, ...], g: Tensor) -> None:
    """Folds a gradient into slots, as it comes."""
    if not is_batch(g, groups):
        fold(g, groups)


def are_held(groups: Iterable[SlotGroup]) -> bool:
    """Whether all these reductions measure many tensors at once, so that small ones may wait."""
    return all(fast_path(reduction, "measure_many") for reduction, _ in groups)


def _has_batch(tensors: list[Tensor]) -> bool:
    is_any = any(map(is_functorch_wrapped_tensor, tensors))
    return is_any or any(map(is_legacy_batchedtensor, tensors))


def is_batch(g: Tensor, groups: tuple[SlotGroup, ...]) -> bool:
    """Whether a gradient stands for many, of which nothing can be kept; if so, slots say it."""
    if is_functorch_wrapped_tensor(g) or is_legacy_batchedtensor(g):
        leave(groups, "gradients were taken as a batch (is_grads_batched, vectorize or vmap)")
        return True
    return False


def with_hook(hook: Callable[[Tensor], Any]) -> Tensor:
    """A tensor that is kept for its hook, which nodes take over."""
    owner = torch.empty(0)
    owner._backward_hooks = {0: hook}
    return owner
