"""The functions that compiled code calls to read a tensor; the compiler does not trace into them.

The compiler interprets Python at some milliseconds an operation, and each of these is one operation
to it. Their contents appear when the compiler has torch itself run the graph: there they cost
little, and are compiled as if they had stood in the code. Torch runs a graph several times before
it is compiled; the findings of the first run hold for the others.

Compiled backward runs as a whole. So statistics of gradients are made by hooks, which change
neither tensors nor autograd's graph; they are returned from the backward as the gradient of the
carrier, by a node that autograd runs last.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from torch.torch_version import TorchVersion

from taiyi_fx.passes.ir import State, fast_path, has_fixed_shape
from taiyi_fx.passes.probes.accumulate import SlotGroup, like_part_of, part_of
from taiyi_fx.passes.probes.compiling import for_compiled_code, one_operation
from taiyi_fx.passes.probes.eager_taps import WithInput
from taiyi_fx.passes.probes.edited import own_copy
from taiyi_fx.passes.probes.gradient_hook import fold_gradient, give_one_of
from taiyi_fx.passes.probes.packing import is_left_open, kinds_of, pack, size_of
from taiyi_fx.passes.probes.traces import READERS, TRACES, Entry, Part, Reader, Trace
from taiyi_fx.passes.structure import Call, tensors_in

_OPEN = (
    "the statistic of a gradient has the batch's size, which the compiler left open: read it "
    "without compiling, or compile with dynamic=False"
)
_OTHER_LAYOUT = (
    "its gradient is distributed over the ranks in another way than the tensor, which compiled "
    "code does not support: read it without compiling"
)
_TWO_FORWARDS = (
    "the statistic of a gradient has the batch's size, and two forwards that are compiled as one "
    "have one state: compile the model itself, not the code around it"
)

_HANDED_ON = "taiyi_fx: a copy of what was handed on"
# Where nothing is dropped, a dropout returns its very input; compilers before torch 2.14 a copy.
_IS_DROPOUT_COPIED = TorchVersion(torch.__version__) < "2.14"

PartOf = Callable[[Tensor, Any, tuple[Any, ...]], Tensor | None]
"""The part of a tensor to measure, for a reduction and its slots."""


@one_operation
def read(tensors: list[Tensor], trace: str, readers: tuple[str, ...]) -> list[Tensor]:
    """The states of values of one device: a vector of what is packed, then the other tensors."""
    return _read(tensors, TRACES[trace], readers)


@one_operation
def read_call(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    function: str,
    result: Any,
    trace: str,
    reader: str,
) -> list[Tensor]:
    """The states of a call and its result, as `read` gives those of a value."""
    found, call = TRACES[trace], Call(args, kwargs, function)
    x = next(tensors_in(call))
    states = _states(found, READERS[reader], x, None, of_call=(call, result))
    return found.packed(states, x.device)


@one_operation
def read_within(
    tensors: list[Tensor], carrier: Tensor, trace: str, readers: tuple[str, ...]
) -> None:
    """The same in an activation checkpoint, which can return statistics by the carrier alone."""
    found = TRACES[trace]
    found.within[readers] = None
    _box_of(carrier, found).read[readers] = _read(tensors, found, readers)


@one_operation
def watch(
    tensors: list[Tensor],
    x: Tensor | None,
    carrier: Tensor,
    index: int,
    trace: str,
    readers: tuple[str, ...],
    is_within: bool,
    is_of_dropout: bool,
) -> Tensor:
    """Reads gradients of all uses of tensors; returns a ticket, which the graph has to return.

    Args:
        tensors: The tensors; they stay as they are, and so do their places in autograd's graph. A
            view would leave that place when it is changed in place: see `apart`.
        x: The input of the call that made the only one, for statistics of both.
        carrier: The tensor whose gradient will be the statistics.
        index: The carrier's number.
        trace: The graph's key.
        readers: The keys of their reductions.
        is_within: True if this is in an activation checkpoint.
        is_of_dropout: True if a dropout returned them.
    """
    found = TRACES[trace]
    is_traced = detect_fake_mode((*tensors, carrier)) is not None
    box = _box_of(carrier, found) if is_traced else None
    for y, key in zip(tensors, readers, strict=True):
        reading = READERS[key]
        if is_traced and not any(entry in found.rooms for entry in reading.entries()):
            _give_rooms(found, reading, y, x, index)
        rooms = ((entry, found.rooms.get(entry)) for entry in reading.entries())
        entries = [entry for entry, room in rooms if room is not None and room.tensor == index]
        if entries and y.requires_grad:
            if box is None:  # a backend that runs the graph as it stands
                take = functools.partial(fold_gradient, _groups(reading, entries, x))
            else:
                take = functools.partial(box.take, reading, entries, x)
            _hang(y, take, is_of_dropout)
    if box is None:
        return carrier.detach()[0]
    return box.ticket(carrier, index, is_kept=is_within)


def _give_rooms(trace: Trace, reader: Reader, y: Tensor, x: Tensor | None, index: int) -> None:
    """Gives the states of a tensor's gradient their rooms, by those of the tensor itself."""
    # Only the kinds are used: the compiler drops the arithmetic. It would keep a collective, on
    # those ranks alone that have no state of it.
    stand_ins = _states(trace, reader, y.detach(), x, part_of=like_part_of)
    for entry, state in stand_ins.items():
        if not has_fixed_shape(reader.groups[entry.group][0]) and any(map(is_left_open, state)):
            trace.refuse(entry, ValueError(_OPEN))
        else:
            trace.give_room(entry, index)


@one_operation
def apart(y: Tensor) -> Tensor:
    """A tensor that nothing else refers to; for a view, a copy with memory of its own."""
    return own_copy(y) if y._is_view() else y


@one_operation
def left_together(
    parts: list[Part], carriers: list[Tensor], trace: str, behind: int
) -> list[Tensor]:
    """All statistics of values, in as few tensors as possible.

    Args:
        parts: The statistics.
        carriers: The carriers, by which those made in checkpoints are found.
        trace: The graph's key.
        behind: The number of tensors before these, left by parts of the model that ended earlier.
    """
    found = TRACES[trace]
    earlier = found.values if behind else {}
    have_left = {entry.reader for entry in earlier}
    held = {keys: part for c in carriers for keys, part in _box_of(c, found).read.items()}
    within = [keys for keys in found.within if keys in held and have_left.isdisjoint(keys)]
    left, rooms = found.arranged([*parts, *((keys, held[keys]) for keys in within)])
    found.lost = {
        entry
        for keys in found.within
        if keys not in held
        for key in keys
        for entry in READERS[key].entries()
    }
    moved = {e: room._replace(tensor=room.tensor + behind) for e, room in rooms.items()}
    found.values = {**earlier, **moved}
    return left


@one_operation
def merged(before: list[Tensor], left: list[Tensor], trace: str) -> list[Tensor]:
    """The merged results of two forwards of a step."""
    with for_compiled_code():
        return TRACES[trace].merged(before, left)


@one_operation
def one_of(tickets: list[Tensor], carriers: list[Tensor], trace: str) -> Tensor:
    """One ticket for all tickets, those of checkpoints included."""
    boxes = [_box_of(carrier, TRACES[trace]) for carrier in carriers]
    held = [box.kept for box in boxes]
    for box in boxes:
        box.kept = None
    every = [*{id(x): x for x in (*tickets, *held) if x is not None}.values()]
    if not every:
        return carriers[0].detach()[0]
    if not every[1:]:
        return every[0]
    joined = torch.stack(every).sum()
    vars(joined)["taiyi_fx"] = every  # for a forward that follows in this graph: see `_Box.ticket`
    return joined


class _Box:
    """The statistics of one run of a graph for a carrier, found by the tensor that stands for it.

    Attributes:
        read: The states of values that checkpoints read, by their readers.
        states: The states of gradients that hooks measured.
        kept: The ticket, where a checkpoint cannot return it. It leads back here, along autograd's
            graph, which Python's garbage collector does not see: so it is not kept longer.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.read: dict[tuple[str, ...], list[Tensor]] = {}
        self.states: dict[Entry, State] = {}
        self.kept: Tensor | None = None
        self._issued: Callable[[], Tensor | None] = _nothing

    def take(self, reader: Reader, entries: Sequence[Entry], x: Tensor | None, g: Tensor) -> None:
        """Measures a gradient."""
        g = g.detach()
        found = _states(self.trace, reader, _with_sure_strides(g), x, only=entries)
        for entry, state in found.items():
            if self.trace.kinds[entry] != self.trace.rooms[entry].kinds:
                self.trace.refuse(entry, ValueError(_OTHER_LAYOUT))
                continue
            if entry in self.states:  # one reader of two forwards in one graph
                with for_compiled_code():
                    state = reader.merge(entry, self.states[entry], state)
                if size_of(kinds_of(state, is_fixed=True)) != size_of(self.trace.kinds[entry]):
                    self.trace.refuse(entry, ValueError(_TWO_FORWARDS))
                    continue
            self.states[entry] = state
            self.trace.reached[entry] = None

    def ticket(self, carrier: Tensor, index: int, *, is_kept: bool) -> Tensor:
        """The ticket: its node gives the carrier its gradient, after all other nodes."""
        issued: Any = self._issued()
        if issued is None:
            issued = _Last.apply(carrier, self, index)
            if issued.grad_fn is not None:
                issued.grad_fn._set_sequence_nr(0)
            self._issued = weakref.ref(issued)
        self.kept = issued if is_kept else self.kept
        return issued

    def gradient(self, like: Tensor, index: int) -> Tensor:
        """The gradient of a carrier: a count of backwards where needed, each state in its room."""
        size, device = self.trace.carriers[index]
        rooms = [(e, r) for e, r in self.trace.rooms.items() if r.tensor == index]
        states: list[State] = [(like.new_ones(()),)] * self.trace.counts
        for entry, room in rooms:  # in their order
            none = (like.new_zeros(size_of(room.kinds)),)
            states.append(self.states.get(entry, none))
        taken = self.trace.counts + sum(size_of(room.kinds) for _, room in rooms)
        return pack([*states, (like.new_zeros(size - taken),)], device)


# Autograd runs nodes in the order of their numbers, the latest first, each as soon as all its
# gradients have come. The node of the carrier has to run last: only then have all hooks seen their
# gradients. It gets the number 0, and its output, the ticket, is returned from the graph so that
# its backward runs at all. The value of the ticket's own gradient does not matter.
class _Last(torch.autograd.Function):
    """The ticket's number, whose value is not used; its backward gives the carrier its gradient."""

    @staticmethod
    def forward(ctx: Any, carrier: Tensor, box: _Box, index: int) -> Tensor:
        """Zero; ``ctx`` is autograd's untyped context."""
        ctx.box, ctx.index = box, index
        return carrier.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """The states that the hooks measured."""
        return ctx.box.gradient(grads[0], ctx.index), None, None


def _nothing() -> None:
    return None


def _box_of(carrier: Tensor, trace: Trace) -> _Box:
    # Each run of a graph, or of a part of it alone, has a tensor of its own for the carrier.
    box = vars(carrier).get("taiyi_fx")
    if box is None:
        box = vars(carrier)["taiyi_fx"] = _Box(trace)
    return box


def _hang(y: Tensor, hook: Callable[[Tensor], None], is_of_dropout: bool) -> None:
    # On the node of autograd's graph, which stays the same when the tensor is changed in place.
    node: Any = y.grad_fn  # torch declares its metadata as a method
    number = y.output_nr
    is_copied = is_of_dropout and _IS_DROPOUT_COPIED
    if is_copied and node is not None and node.name() == "CloneBackward0":
        node.metadata[_HANDED_ON] = True
    while node is not None and _HANDED_ON in node.metadata:
        node, number = node.next_functions[0]
    if node is None:
        y.register_hook(hook)
    else:
        node.register_prehook(functools.partial(give_one_of, number, hook))


def _groups(reader: Reader, entries: Sequence[Entry], x: Tensor | None) -> tuple[SlotGroup, ...]:
    groups = tuple(reader.groups[entry.group] for entry in entries)
    return groups if x is None else tuple((WithInput(r, x), slots) for r, slots in groups)


def _read(tensors: list[Tensor], trace: Trace, readers: Sequence[str]) -> list[Tensor]:
    states: dict[Entry, State] = {}
    for x, key in zip(tensors, readers, strict=True):
        states |= _states(trace, READERS[key], _with_sure_strides(x.detach()), None)
    return trace.packed(states, tensors[0].device)


def _with_sure_strides(x: Tensor) -> Tensor:
    # The compiler assumes strides that gradients of a dropout or values of MaxUnpool2d, for two, do
    # not have, and a view would fail. A copy has them; inductor removes it again.
    return x.clone(memory_format=torch.contiguous_format) if x.is_contiguous() else x


def _states(
    trace: Trace,
    reader: Reader,
    x: Tensor,
    given: Tensor | None,
    only: Sequence[Entry] | None = None,
    part_of: PartOf = part_of,
    of_call: tuple[Call, Any] | None = None,
) -> dict[Entry, State]:
    """The states of a tensor, of a gradient and the call's input, or of a call with its result.

    Some reductions have none.
    """
    states: dict[Entry, State] = {}
    for entry in only or reader.entries():
        if entry in trace.refused:
            continue
        reduction, slots = reader.groups[entry.group]
        try:
            with _without_values(x), for_compiled_code(are_merged=trace.is_within):
                part = x if type(x) is Tensor else part_of(x, reduction, slots)
                if part is None:  # other ranks have the same
                    continue
                of_shape = None if trace.is_within else fast_path(reduction, "measure_shape")
                trace.numbers.pop(entry, None)
                if of_shape is not None and not is_left_open(part):
                    trace.numbers[entry], trace.kinds[entry] = of_shape(part.shape), ()
                    states[entry] = ()
                    continue
                if of_call is not None:
                    measured = reduction.measure_call(*of_call)
                elif given is None:
                    measured = reduction.measure(part)
                else:
                    measured = reduction.measure_pair(given, part)
                state = tuple(measured)
                kinds = kinds_of(state, is_fixed=has_fixed_shape(reduction))
                if trace.kinds.get(entry) != kinds:  # else a run before this one has checked it
                    _check(reduction, state)
        except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
            trace.refuse(entry, error)
            continue
        trace.kinds[entry] = kinds
        states[entry] = state
    return states


def _need_values() -> tuple[type[Exception], ...]:
    """The errors of operations that need values; called once there was one: this imports sympy."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode


@contextmanager
def _without_values(x: Tensor) -> Iterator[None]:
    """Refuses operations that need the values of tensors, which do not exist while compiling."""
    mode = detect_fake_mode((x,))
    shapes = None if mode is None else mode.shape_env
    unknown = [] if shapes is None else shapes.pending_fresh_unbacked_symbols
    before = len(unknown)
    needs = "it reads values of a tensor (.item(), a mask, an if), which compiled code lacks"
    try:
        yield
    except _need_values() as error:
        raise ValueError(needs) from error
    finally:
        made = unknown[before:]
        del unknown[before:]  # they would have to be in what the operation returns
    if made:
        raise ValueError(needs)


def _check(reduction: Any, state: State) -> None:
    if not state:
        raise ValueError("the state that measure returned has no parts")
    if not has_fixed_shape(reduction):
        return
    merged = reduction.merge(state, state)
    seen, had = ([tuple(part.shape) for part in parts] for parts in (merged, state))
    if seen != had:
        raise ValueError(f"merging states of the shapes {had} gave {seen}")
