"""Probes: the nodes that the passes insert, which read a value and pass it on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from taiyi_fx.passes.ir import VALUE_PORTS, Pick, Port
from taiyi_fx.passes.probes.accumulate import (
    SlotGroup,
    begin_spans,
    fail_all,
    fold,
    fold_call,
    fold_spans,
    marks_of,
    note_reason,
)
from taiyi_fx.passes.probes.at_end import Waiting
from taiyi_fx.passes.probes.board import Board
from taiyi_fx.passes.probes.compiled import Aliasing, Steps, What
from taiyi_fx.passes.probes.dtensor import is_spread, whole
from taiyi_fx.passes.probes.eager_taps import (
    NOT_REACHED_OF_VIEW,
    Way,
    WithInput,
    expects_gradient,
    tap,
)
from taiyi_fx.passes.probes.gradient_hook import GradientHook
from taiyi_fx.passes.probes.held import MOST, NOT_REACHED, SMALL, Held, are_held
from taiyi_fx.passes.probes.slots import Slot
from taiyi_fx.passes.probes.traces import Reader
from taiyi_fx.passes.probes.uses import begin_uses, end_uses
from taiyi_fx.passes.structure import (
    Call,
    find_tensor,
    is_dressed,
    stands_in,
    tensors_in,
    undressed,
    unseen_by_classes,
)

Picks = tuple[tuple[Pick, tuple[SlotGroup, ...]], ...]
"""The reductions and their slots, by the pick of the tensor."""


class Probe:
    """A node of the graph that reads a value and passes it on.

    Values are read at once, gradients when autograd makes them.

    Args:
        name: Its name in generated code.
        slots: The slots to fold into.
        board: The board of the model.
        is_fresh: True if the value was just made and shares memory with nothing before it.
        begins: True if it stands at the begin of a call, False at the end.
        ends: The slots that take the gradient of the input of the call that ends here.
        keepers: The modules that this call runs, which may keep tensors as attributes.

    Attributes:
        value_slots: The reductions of values and their slots, by the pick from the value.
        gradient_slots: The same for gradients of all uses of a tensor.
        use_slots: The same for gradients of a call's uses, which are begun at one probe and end at
            another.
        pair_slots: The same for pairs, by the pick from the call's input, which they read together
            with the gradient of the output.
        call_slots: The same for calls, which are read with their result.
        span_slots: The reductions of spans, which begin at one probe and end at another, or of
            their backward, and their slots.
        stays: True if nothing can change the value before the graph ends.
        is_inside: True if only operations that put no hooks on the value get it.
        may_wait: True if no gradient can come before the graph ends.
        is_of_dropout: True if the value is a dropout's: its very input, where nothing is dropped.
    """

    def __init__(
        self,
        name: str,
        slots: Iterable[Slot],
        board: Board,
        *,
        is_fresh: bool = False,
        begins: bool = False,
        ends: Iterable[Slot] = (),
        keepers: tuple[nn.Module, ...] = (),
    ) -> None:
        # torch.fx names a called object in the generated code by these two.
        self.__name__ = name
        self.__module__ = "taiyi_fx"
        self.slots = tuple(dict.fromkeys(slots))
        self.board = board
        self.is_fresh = is_fresh
        self.begins = begins
        self.value_slots = self._grouped(VALUE_PORTS)
        self.ends = tuple(ends)
        self.keepers = keepers
        # That of an input may be read where the tensor was made, if the call is its only use.
        of_all_uses: tuple[Port, ...] = (
            ("output_grad",) if begins else ("input_grad", "output_grad")
        )
        self.gradient_slots = self._grouped(of_all_uses)
        begun = self.slots if begins else self.ends
        self.use_slots = self._grouped(("input_grad",), begun)
        self.pair_slots = self._grouped(("pair",))
        self.call_slots = self._grouped(("call",))
        self.span_slots = tuple(
            group for _, groups in self._grouped(("span", "backward")) for group in groups
        )
        self._gradient_hooks = tuple(
            (pick, GradientHook(groups, self._room(groups) if is_fresh else None))
            for pick, groups in self.gradient_slots
        )
        self._values = tuple((pick, g, self._room(g)) for pick, g in self.value_slots)
        self.stays = self.is_inside = self.may_wait = self.is_of_dropout = False

    @property
    def taps_gradients(self) -> bool:
        """True if it is in the path of the value: it may return another tensor.

        At an input it never does, but there it can be seen if the call is the value's only use.
        """
        return bool(self.gradient_slots or self.pair_slots or (self.begins and self.use_slots))

    @property
    def takes_call(self) -> bool:
        """True if it needs the arguments of the call beside its result."""
        return bool(self.call_slots or self.pair_slots or self.ends)

    def __repr__(self) -> str:
        return f"Probe({self.__name__!r}, {len(self.slots)} readings)"

    def __call__(self, value: Any, given: Any = None) -> Any:
        """Reads ``value``, any structure of tensors, and returns it with gradients tapped.

        Args:
            value: The value.
            given: For an output, the input of its call, if the one may be the other or both
                are read.
        """
        if self.use_slots and not self.begins:
            self._end_uses(value, given)
        if not self.span_slots:
            return self._read(value, given)
        # The marks stand next to the call itself, so that a span has none of this probe's own time.
        if self.begins:
            value = self._read(value, given)
            begin_spans(self.span_slots)
            return value
        ended = marks_of(self.span_slots)
        with unseen_by_classes(*tensors_in(value)):
            fold_spans(self.span_slots, ended, value)
        return self._read(value, given)

    def _read(self, value: Any, given: Any) -> Any:
        self._read_values(value)
        self._read_call(value, given)
        value = self._with_gradients_read(value, given)
        if self.use_slots and self.begins:
            self._begin_uses(value)
        return value

    def _read_values(self, value: Any, given: Any = None) -> None:
        for pick, groups, room in self._values:
            tensor = _picked(value, pick)
            if tensor is None:
                continue
            if type(tensor) is not Tensor and is_dressed(tensor):  # a call less
                with unseen_by_classes(tensor):
                    fold(tensor.detach(), groups)
            elif room is None or not self._holds(room, tensor, groups):
                fold(tensor, groups)

    def _holds(self, room: Held, tensor: Tensor, groups: tuple[SlotGroup, ...]) -> bool:
        try:
            return room.takes(tensor, groups, stays=self.stays)
        except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
            fail_all(groups, error)
            return True

    def _read_call(self, value: Any, given: Any) -> None:
        for _, groups in self.call_slots:
            call = given if isinstance(given, Call) else Call((given,), {})
            with unseen_by_classes(*tensors_in(call)):
                fold_call(call, value, groups)

    def _begin_uses(self, value: Any) -> None:
        for pick, groups in self.use_slots:
            tensor = _picked(value, pick)
            if tensor is not None:
                try:
                    if type(tensor) is Tensor:
                        begin_uses(tensor, value, groups)
                    else:
                        with unseen_by_classes(tensor):
                            begin_uses(tensor, value, groups)
                except Exception as error:  # noqa: BLE001 - never ends a training run
                    fail_all(groups, error)

    def _end_uses(self, value: Any, given: Any) -> None:
        for _, groups in self.use_slots:
            try:
                end_uses(value, given, self.keepers, groups)
            except Exception as error:  # noqa: BLE001 - never ends a training run
                fail_all(groups, error)

    def _with_gradients_read(self, value: Any, given: Any = None) -> Any:
        for pick, hook in self._gradient_hooks:
            tensor = _picked(value, pick)
            if tensor is not None:
                try:
                    if type(tensor) is Tensor:
                        value = self._with_gradient_read(value, tensor, given, hook)
                    else:
                        with unseen_by_classes(tensor):
                            value = self._with_gradient_read(value, tensor, given, hook)
                except Exception as error:  # noqa: BLE001 - never ends a training run
                    fail_all(hook.groups, error)
        for pick, groups in self.pair_slots:
            tensor, x = find_tensor(value, None), find_tensor(given, pick)
            if tensor is not None and x is not None:
                try:
                    x = whole(x) if is_spread(x) else x  # now, as all ranks of its mesh run this
                    with unseen_by_classes(x, tensor):
                        pairs = tuple((WithInput(r, x.detach()), slots) for r, slots in groups)
                        hook = GradientHook(pairs)
                        value = self._with_gradient_read(value, tensor, given, hook)
                except Exception as error:  # noqa: BLE001 - never ends a training run
                    fail_all(groups, error)
        return value

    def _with_gradient_read(
        self, value: Any, tensor: Tensor, given: Any, hook: GradientHook
    ) -> Any:
        groups = hook.groups
        made = undressed(tensor) if is_dressed(tensor) else tensor
        node = made.grad_fn if torch.is_grad_enabled() else None
        if node is None and not expects_gradient(tensor, groups):
            return value
        is_view = made._is_view()
        note_reason(groups, NOT_REACHED_OF_VIEW if is_view else NOT_REACHED)
        # A view that is changed in place gets another node, but a Function before it stays. Other
        # hooks on the tensor would run before one on the node.
        may_leave = is_view and self.is_fresh and not (self.stays and self.is_inside)
        if node is not None and not (may_leave or tensor._backward_hooks):
            hook.at(node, made.output_nr, is_inside=self.is_inside)
            return value
        way = self._way(value, tensor, given)
        return tap(value, tensor, groups, way)

    def _way(self, value: Any, tensor: Tensor, given: Any) -> Way:
        if value is not tensor and not stands_in(value, tensor):
            return "held by another"
        if is_dressed(tensor):
            return "held by another"  # a Function would return it as a plain tensor
        if self.is_fresh:
            return "made here"
        if any(tensor is other for other in tensors_in(given)):
            return "handed through"
        return "held by another"  # it may be, as far as is known

    def waiting(self) -> Waiting | None:
        """This probe as one that may wait for the end of its graph; None if it may not."""
        others = self.use_slots, self.pair_slots, self.call_slots, self.span_slots, self.ends
        is_taken = self.is_inside and self.is_fresh and self.may_wait
        rooms = [(pick, room) for pick, _, room in self._values]
        rooms += [(pick, hook.room) for pick, hook in self._gradient_hooks]
        are_usual = all(pick is None and room is not None for pick, room in rooms)
        if any(others) or not (self.stays and are_usual):
            return None
        if self._gradient_hooks and not is_taken:
            return None
        groups = tuple(group for _, groups, _ in self._values for group in groups)
        hook = next((hook for _, hook in self._gradient_hooks), None)
        return Waiting(self.fast_path(), groups, hook)

    def fast_path(self) -> Callable[..., Any]:
        """A function that does the same, faster for the usual values."""
        if self.call_slots or self.span_slots:
            return _named(self, self.__call__)
        rest = self._fast_but_for_uses()
        if not self.use_slots:
            return _named(self, rest)
        begin, end = self._begin_uses, self._end_uses

        def begun(value: Any, given: Any = None) -> Any:
            value = rest(value, given)
            begin(value)
            return value

        def ended(value: Any, given: Any = None) -> Any:
            end(value, given)
            return rest(value, given)

        return _named(self, begun if self.begins else ended)

    def _fast_but_for_uses(self) -> Callable[..., Any]:
        read, tapped = self._read_values, self._with_gradients_read
        if len(self._values) == 1:
            ((pick, groups, room),) = self._values
            if pick is None and room is not None:
                read = _holding(groups, room, read, stays=self.stays)
        is_alone = self.is_inside and self.is_fresh and not self.pair_slots
        if is_alone and len(self._gradient_hooks) == 1:
            ((pick, hook),) = self._gradient_hooks
            tapped = hook.fast_path(tapped, may_be_view=self.stays) if pick is None else tapped
        if not self._values:
            return tapped
        if not self.taps_gradients:
            return read

        def read_and_tapped(value: Any, given: Any = None) -> Any:
            read(value)
            return tapped(value, given)

        return read_and_tapped

    def steps(self) -> Steps:
        """The steps of this probe, as constants for compiled code."""
        shared: Aliasing = "dropout's" if self.is_of_dropout else "shared"
        is_given = self.begins and not (self.gradient_slots or self.pair_slots)
        aliasing: Aliasing = "made here" if self.is_fresh else "given" if is_given else shared
        by_what: tuple[tuple[What, Picks], ...] = (
            ("value", self.value_slots),
            ("gradient", self.gradient_slots),
            ("gradient", self.use_slots if self.begins else ()),
            ("pair", self.pair_slots),
            ("call", self.call_slots),
            ("span", ((None, self.span_slots),) if self.span_slots else ()),
        )
        return tuple(
            (what, aliasing, pick, self._reader(groups))
            for what, picks in by_what
            for pick, groups in picks
        )

    def _grouped(self, ports: tuple[Port, ...], slots: Iterable[Slot] | None = None) -> Picks:
        picks: dict[Pick, dict[Any, list[Slot]]] = {}
        for slot in self.slots if slots is None else slots:
            site = slot.reading.site
            if site.port in ports:
                groups = picks.setdefault(site.pick, {})
                groups.setdefault(self.board.one_of(slot.reading.reduction), []).append(slot)
        return tuple(
            (pick, tuple((r, tuple(s)) for r, s in groups.items()))
            for pick, groups in picks.items()
        )

    def _room(self, groups: tuple[SlotGroup, ...]) -> Held | None:
        """The holder of small tensors, if all reductions can measure many at once; else None."""
        return self.board.held if are_held(groups) else None

    def _reader(self, groups: tuple[SlotGroup, ...]) -> str:
        return self.board.readers.setdefault(groups, Reader(groups)).key


def _holding(
    groups: tuple[SlotGroup, ...], room: Held, general: Callable[[Any], None], *, stays: bool
) -> Callable[..., None]:
    """Holds a value, or a copy if it may be changed; other cases go to the general function."""
    tensors = room.tensors
    hold, hold_version, hold_groups = tensors.append, room.versions.append, room.groups.append

    def read(value: Any, given: Any = None) -> None:
        if type(value) is Tensor and value.numel() > SMALL:
            fold(value, groups)
        elif (
            type(value) is Tensor
            and value.dtype is torch.float32
            and value.is_cpu
            and not value._is_view()
            and len(tensors) < MOST
        ):
            try:
                held = value.detach()  # without its graph
                held = held if stays else held.clone()
            except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
                fail_all(groups, error)
                return
            if held.is_inference():
                general(value)
                return
            hold_version(held._version)
            hold_groups(groups)
            hold(held)
        else:
            general(value)

    return read


def _named(probe: Probe, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the name of a probe, which torch.fx uses in generated code."""

    def named(value: Any, given: Any = None) -> Any:
        return function(value, given)

    named = named if isinstance(function, MethodType) else function
    named.__name__, named.__module__ = probe.__name__, probe.__module__
    return named


def _picked(value: Any, pick: Pick) -> Tensor | None:
    # The usual value, one tensor, needs no walk through a structure.
    return value if pick is None and type(value) is Tensor else find_tensor(value, pick)
