"""Small tensors, held while a forward or a backward runs and then measured by one call.

A call of torch takes longer than the sums of a small tensor, and a function of Python that autograd
calls takes longer than both. So small tensors are only held, gradients by a builtin: the hook of a
node is `list.append`. A hook does so from its second gradient on; of its first one a function holds
a copy, and notes the version (torch's counter of changes in place) that gradients of its tensor
arrive with. If that first one is the same when backward ends, one that later arrives with that
version, and still has it then, was not changed in between.

The builtin does not know which forward a gradient is of. So the forwards whose gradients may still
come take turns: each has lists of its own, and several gradients in one list are of one tensor,
brought by several backwards. They are added up, as `retained` says.

The statistics stay a few vectors until a slot is read: nearly always `track` takes the vectors as
they are, and no slot is read.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor, is_legacy_batchedtensor
from torch.autograd.graph import Node

from taiyi_fx.passes.freed import FREED, LOW, address_of, is_freed
from taiyi_fx.passes.ir import fast_path
from taiyi_fx.passes.probes.accumulate import SlotGroup, fail, fail_all, fold, note_reason
from taiyi_fx.passes.probes.measured import Alike, Arrangement, Measured, arrange
from taiyi_fx.passes.probes.modes import unseen
from taiyi_fx.passes.probes.retained import Retained, keeps_graph
from taiyi_fx.passes.probes.slots import Slot

SMALL = 4096
"""The most elements that a held tensor has."""
MOST = 256
"""The most tensors that are held: four megabytes."""

NOT_REACHED = "no gradient reached it"
UNKNOWN = -1
"""The version of a gradient before the first one has come."""
_LARGEST = 4 * SMALL
"""The most bytes of a storage that a held tensor is a view of."""
_NONE = -1
"""In place of the number of a backward pass, where none runs."""
_TOO_LATE = "one more backward came through its forward after the gradient had been read"
CHANGED = "the tensor was changed in place before it was read"

_version_of = operator.attrgetter("_version")
_gradients_of, _is_read_of = operator.attrgetter("gradients"), operator.attrgetter("is_read")


class Held:
    """Small tensors of a forward or a backward that is under way.

    Only tensors that nothing is known to change in the meantime are held.

    Attributes:
        tensors: The tensors that are held.
        versions: The version of each when it came.
        groups: The reductions and slots of each.
        measured: Statistics that are not folded into slots yet.
        lists: The lists of this step in which a builtin holds gradients.
        earlier: The same of the step before, whose backward may still come.
        hung: One entry for each gradient that may come to them.
        turn: The number of the lists that the next forward's gradients come to. Those of one step
            are even, those of the next odd.
        firsts: The first gradients of hooks, until backward ends.
        retained: Gradients of which more may come.
        keeps_graph: True if a backward since the last measurement is known to keep the graph.
        latest: The node of the last one registered, which backward reaches first.
    """

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.versions: list[int] = []
        self.groups: list[tuple[SlotGroup, ...]] = []
        self.measured: list[Measured] = []
        self.lists: dict[Turn, list[Tensor]] = {}
        self.earlier: dict[Turn, list[Tensor]] = {}
        self.hung: list[None] = []
        self.latest: Node | None = None
        self.turn = self._first_turn = 0
        self.firsts: list[First] = []
        self.retained = Retained()
        self.keeps_graph = False
        self._ends_with = _NONE
        self._ending = with_hook(self._end_with_this_backward)
        # The last arrangements: nearly always the next ones are the same.
        self._arranged: dict[int, Arrangement] = {}

    def takes(self, x: Tensor, groups: tuple[SlotGroup, ...], *, stays: bool = True) -> bool:
        """Holds a tensor if it is small and of the kind that is measured together.

        Args:
            x: The tensor.
            groups: The reductions and slots that take it.
            stays: False if it may be changed in the meantime: a copy is held.
        """
        if x.numel() > SMALL or type(x) is not Tensor or x.dtype is not torch.float32:
            return False
        if not x.is_cpu or x.is_neg() or x.layout is not torch.strided or x.is_nested:
            return False
        if stays and x._is_view() and not may_be_held(x):
            return False
        # Its autograd graph, which may hold much more than a megabyte, is not held with it.
        held = x.detach() if x.requires_grad else x
        held = held if stays else held.clone()
        if held.is_inference():  # as each copy under `torch.inference_mode`: it has no version
            return False
        self.tensors.append(held)
        self.versions.append(held._version)
        self.groups.append(groups)
        if len(self.tensors) >= MOST:
            self.measure(is_over=False)
        return True

    def take_all(self, tensors: Sequence[Tensor], groups: Sequence[tuple[SlotGroup, ...]]) -> None:
        """Holds tensors that are known to be of that kind, without autograd graphs."""
        self.versions += map(_version_of, tensors)
        self.groups += groups
        self.tensors += tensors

    def await_gradients(
        self, lists: Mapping[Turn, list[Tensor]], latest: Node, hung: Sequence[None]
    ) -> None:
        """Expects gradients in lists.

        Args:
            lists: The lists that builtins hold them in.
            latest: The node of the last tensor.
            hung: One entry for each.
        """
        self.lists.update(lists)
        self.hung += hung
        self.latest = latest

    def takes_gradient(self, g: Tensor, groups: tuple[SlotGroup, ...], *, stays: bool) -> bool:
        """The same for a gradient; all are measured at the end of the running backward pass.

        A view of much is not taken, though a copy of it could be: builtins would hold the next one.
        """
        self._end_with_this_backward()
        is_view_of_much = type(g) is Tensor and g._is_view() and not may_be_held(g)
        return not is_view_of_much and self.takes(g, groups, stays=stays)

    def _end_with_this_backward(self, _: Any = None) -> None:
        running = torch._C._current_graph_task_id()
        if self._ends_with != running:  # another may have failed, or contain this one
            self._ends_with = running
            self.keeps_graph |= keeps_graph()
            torch.autograd.Variable._execution_engine.queue_callback(self.measure)

    def end_forward(self) -> None:
        """Has all that is held measured at the end of this forward's backward."""
        if self.latest is not None:
            self.latest._register_hook_dict(self._ending)  # pyright: ignore[reportAttributeAccessIssue]
            self.latest = None
            self.turn += 2

    def measure(self, *, is_last: bool = False, is_over: bool = True) -> None:
        """Measures all that is held, but gradients of which more may come.

        Args:
            is_last: True if the step ends: no gradient can come again.
            is_over: False if the forward or the backward goes on.
        """
        self._ends_with = _NONE
        if is_over and self.firsts:
            unseen(self._learn)
        if is_last and self.retained.sums:
            unseen(self._end_sums)
        if self.tensors or any(self.lists.values()) or any(self.earlier.values()):
            unseen(self._measure_held, is_last)
        elif self.hung:
            self.hung.clear()
            self._first_turn = self.turn
        self.keeps_graph = False

    def _learn(self) -> None:
        """Lets builtins hold the gradients of hooks whose first one stayed as it came.

        Code may write into a gradient past its version, by its memory in numpy, ``data`` or a
        kernel of its own. What does so once, does so each time.
        """
        firsts, self.firsts = self.firsts, []
        for hook, g, version, copy in firsts:
            try:
                if g._version == version and torch.equal(g, copy):
                    hook.version = version
            except Exception:  # noqa: BLE001 - its next one is copied, too
                continue

    def _measure_held(self, is_last: bool) -> None:
        tensors, versions, groups = self._taken(is_last or not (self.keeps_graph or keeps_graph()))
        try:
            if torch.is_grad_enabled():  # mostly not: backward runs without
                with torch.no_grad():
                    self._measure_all(tensors, versions, groups)
            else:
                self._measure_all(tensors, versions, groups)
        except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
            for its_groups in groups:
                fail_all(its_groups, error)

    def _measure_all(
        self, tensors: list[Tensor], versions: list[int], groups: list[tuple[SlotGroup, ...]]
    ) -> None:
        try:
            are_changed = [*map(_version_of, tensors)] != versions
        except AttributeError:  # a builtin held None: backward brought no gradient
            there = [x is not None for x in tensors]
            tensors, groups = [*compress(tensors, there)], [*compress(groups, there)]
            versions = [*compress(versions, there)]
            are_changed = True
        if are_changed or _are_batches_here() or min(map(address_of, tensors), default=LOW) < LOW:
            tensors, groups = self._sound(tensors, versions, groups)
        try:
            last = self._arranged.get(len(groups))
            if last is None or not last.fits(tensors, groups):
                last = self._arranged[len(groups)] = arrange([x.shape for x in tensors], groups)
        except RuntimeError:  # a nested tensor has no shape
            for x, its_groups in zip(tensors, groups, strict=True):
                fold(x, its_groups)
            return
        for alike in last.alike:
            is_all = len(alike.places) == len(tensors)
            self._measure(alike, tensors if is_all else [tensors[i] for i in alike.places])

    def _measure(self, alike: Alike, tensors: list[Tensor]) -> None:
        try:
            states = alike.reduction.measure_many(tensors)
        except Exception:  # noqa: BLE001 - measuring each alone shows which one failed
            for x, slots in zip(tensors, alike.slots, strict=True):
                fold(x, ((alike.reduction, slots),))
        else:
            self.measured.append(Measured(alike, states))

    def settle(self) -> None:
        """Folds all measured statistics into slots."""
        measured, self.measured = self.measured, []
        for some in measured:
            some.fold()

    def _taken(self, are_last: bool) -> tuple[list[Tensor], list[int], list[tuple[SlotGroup, ...]]]:
        """All tensors, their versions, and their reductions with slots; they are held no longer.

        Args:
            are_last: True if no gradient of those that came can come again.
        """
        tensors, versions, groups = [*self.tensors], [*self.versions], [*self.groups]
        self.tensors.clear()
        self.versions.clear()
        self.groups.clear()
        came = [turn for turn in itertools.chain(self.lists, self.earlier) if turn.gradients]
        is_over = are_last and not self.retained.sums and _are_first(came)
        if is_over:
            for turn in came:
                tensors += turn.gradients
                versions.append(turn.hook.version)
                groups.append(turn.hook.groups)
                turn.gradients.clear()
                turn.is_read = True
        else:
            for turn in came:
                if (gradient := self._gradient_of(turn, are_last)) is not None:
                    tensors.append(gradient[0])
                    versions.append(gradient[1])
                    groups.append(turn.hook.groups)
                turn.gradients.clear()
        if is_over and len(came) == len(self.hung):  # all gradients of all forwards have come
            self.turn = self._first_turn
        else:
            self._first_turn = self.turn
        self.hung.clear()
        return tensors, versions, groups

    def _gradient_of(self, turn: Turn, are_last: bool) -> tuple[Tensor, int] | None:
        """The gradient that came to a list, and its version; None if it waits for more."""
        sums = self.retained.sums
        if not are_last or turn in sums or len(turn.gradients) > 1:
            self._add_up(turn)
            if not are_last or turn not in sums:
                return None
            g = self.retained.pop(turn)
            return g, g._version
        if turn.is_read:
            fail_all(turn.hook.groups, RuntimeError(_TOO_LATE))
            return None
        turn.is_read = True
        (g,) = turn.gradients
        return g, turn.hook.version

    def _add_up(self, turn: Turn) -> None:
        """Adds the gradients of a list to those that came before them."""
        hook = turn.hook
        try:
            for g in turn.gradients:
                if g is None or is_batch(g, hook.groups):
                    continue
                if g._version != hook.version:
                    raise RuntimeError(CHANGED)
                self.retained.add(turn, hook.groups, g)
        except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
            hook.version = UNKNOWN  # its next gradient goes to the function again
            fail_all(hook.groups, error)

    def _end_sums(self) -> None:
        """Measures all sums, with what lists have to add to them."""
        sums = self.retained.sums
        for turn, gradients in itertools.chain(self.lists.items(), self.earlier.items()):
            if gradients and turn in sums:
                self._add_up(turn)
                gradients.clear()
        for groups, g in self.retained.take():
            try:
                is_held = are_held(groups) and self.takes(g, groups)
            except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
                fail_all(groups, error)
                continue
            if not is_held:
                fold(g, groups)

    def _sound(
        self, tensors: list[Tensor], versions: list[int], groups: list[tuple[SlotGroup, ...]]
    ) -> tuple[list[Tensor], list[tuple[SlotGroup, ...]]]:
        """The tensors that can be measured; the slots of the others get the reason why not."""
        kept: list[int] = []
        for i, x in enumerate(tensors):
            if is_batch(x, groups[i]):
                continue
            if x._version == versions[i]:
                if is_freed(x):
                    fail_all(groups[i], RuntimeError(FREED))
                else:
                    kept.append(i)
                continue
            for _, slots in groups[i]:
                fail(slots, RuntimeError(CHANGED))
            for turn in {**self.earlier, **self.lists}:
                turn.hook.version = UNKNOWN  # their next gradients go to the function again
        return [tensors[i] for i in kept], [groups[i] for i in kept]

    def why_nothing(self, slot: Slot) -> str | None:
        """The reason why a slot is empty, if it waits for a gradient of a hook."""
        slots = (slots for turn in self.lists for _, slots in turn.hook.groups)
        return NOT_REACHED if any(slot in some for some in slots) else None

    def let_go(self) -> None:
        """Drops all tensors, gradients and statistics."""
        self.tensors.clear()
        self.versions.clear()
        self.groups.clear()
        self.measured.clear()
        self.firsts.clear()
        for gradients in filter(None, self.lists.values()):
            gradients.clear()
        self.hung.clear()
        self.latest = None
        self._ends_with = _NONE

    def clear(self) -> None:
        """The same at the end of a step: gradients that come later belong to the next."""
        self.let_go()
        if self.retained.is_needed:
            self.retained.clear()
        self.earlier, self.lists = self.lists, {}
        self.turn = self._first_turn = 1 - self._first_turn % 2


class Hook(Protocol):
    """A reader of gradients: see `gradient_hook`.

    Attributes:
        groups: The reductions and slots that take them.
        version: The version that small ones arrive with, once one has.
    """

    groups: tuple[SlotGroup, ...]
    version: int


class First(NamedTuple):
    """The first gradient of a hook.

    Attributes:
        hook: The hook.
        gradient: The gradient.
        version: The version that it came with.
        copy: The gradient as it came.
    """

    hook: Hook
    gradient: Tensor
    version: int
    copy: Tensor


class Turn:
    """The list in which a builtin holds a hook's gradients of one forward.

    Attributes:
        hook: The hook.
        gradients: Those that came and are not measured yet.
        owner: The builtin, in the form that a node takes.
        is_read: True if one was measured, so that no other may come.
    """

    def __init__(self, hook: Hook) -> None:
        self.hook = hook
        self.gradients: list[Tensor] = []
        self.owner = with_hook(self.gradients.append)
        self.is_read = False


def _are_first(came: Sequence[Turn]) -> bool:
    """True if each list has one gradient, and none had one before."""
    counts = map(len, map(_gradients_of, came))
    return not any(map(_is_read_of, came)) and max(counts, default=1) == 1


def are_held(groups: Iterable[SlotGroup]) -> bool:
    """True if all these reductions can measure many tensors at once, so that small ones wait."""
    return all(fast_path(reduction, "measure_many") for reduction, _ in groups)


def may_be_held(view: Tensor) -> bool:
    """True if a view keeps no more of a storage in memory than a small tensor has."""
    return view.untyped_storage().nbytes() <= _LARGEST


def _are_batches_here() -> bool:
    """True if this runs within a transform, where tensors may be batches of several."""
    # Asked of each tensor this would take a tenth of the time of all that is measured.
    if torch._C._are_functorch_transforms_active():
        return True
    level = torch._C._vmapmode_increment_nesting()
    torch._C._vmapmode_decrement_nesting()
    return level > 1


def is_batch(g: Tensor, groups: tuple[SlotGroup, ...]) -> bool:
    """True if a gradient is a batch of several, which cannot be reduced; slots get the reason."""
    if is_functorch_wrapped_tensor(g) or is_legacy_batchedtensor(g):
        note_reason(groups, "gradients were taken as a batch (is_grads_batched, vectorize or vmap)")
        return True
    return False


def with_hook(hook: Callable[[Tensor], Any]) -> Tensor:
    """A tensor whose hook nodes can share."""
    return unseen(_with_hook, hook)


def _with_hook(hook: Callable[[Tensor], Any]) -> Tensor:
    owner = torch.empty(0)
    owner._backward_hooks = {0: hook}
    return owner
