"""Readings in compiled code: the part that the compiler traces, with few operations."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, is_grad_enabled
from torch._guards import TracingContext
from torch.nn import Parameter

from taiyi_fx.passes.ir import Pick
from taiyi_fx.passes.probes.board import BOARDS, Board
from taiyi_fx.passes.probes.compiling import CHECKPOINT, body_under_way, constant_when_compiled
from taiyi_fx.passes.probes.eager_taps import PARAMETER
from taiyi_fx.passes.probes.in_graph import (
    apart,
    left_together,
    merged,
    one_of,
    read,
    read_call,
    read_within,
    watch,
)
from taiyi_fx.passes.probes.traces import TRACES, Trace
from taiyi_fx.passes.structure import Call, alias_of, find_tensor, replace_tensor, stands_in

What = Literal["value", "gradient", "pair", "call", "span"]
Aliasing = Literal["made here", "shared", "dropout's", "given"]
"""A tensor's sharing: made by this call, perhaps shared with others, or an input of the module.

A dropout's is shared where nothing is dropped.
"""
Steps = tuple[tuple[What, Aliasing, Pick, str], ...]
"""The steps of a probe: what it reads, its sharing, the pick, and the reader's key."""

_SHARED = ("shared", "dropout's")

NO_SPANS = (
    "compiled code runs operations of several modules as one, so that none has a begin and an end; "
    "read it without compiling, or at a module around the compiled ones"
)
"""The reason why a span is empty in compiled code."""

SPLIT = (
    "the compiler split the code between this call and those after it: read its gradient without "
    "compiling"
)
"""The reason why gradients are not read where what follows is compiled apart."""

_ROOM = 4
"""The size of a new carrier, in numbers for each due reading of a gradient."""


Here = tuple[Board, str, bool, str]
"""The board, its key, whether the code around the model is compiled with it, the graph's key."""

Values = tuple[tuple[Any, Pick, str], ...]
"""Values, the pick of each, and the key of its reader."""

_GRAPHS = itertools.count()


def here_on(board: Board) -> Callable[[], Here]:
    """A function for the begin of the compiled code of a graph, whose result its probes are given.

    What they were to look up themselves, the compiler would check for each of them at each call.
    """
    graph = f"graph{next(_GRAPHS)}"

    def here() -> Here:
        _begin(board.key, graph)
        return board, board.key, board.is_within, graph

    return here


# The compiler interprets these for each probe. Constants in the code say what to read, which need
# no guards when the code is called.


def read_value(
    here: Here, value: Any, given: Any, aliasing: Aliasing, pick: Pick, reader: str, room: int
) -> Any:
    """Reads the tensor of a value; returns the value."""
    x = value if pick is None and type(value) is Tensor else find_tensor(value, pick)
    if x is None:
        return value
    board, key, is_within, _ = here
    trace, where = _trace_here(key, is_within)
    if not where:
        name, one = f"{trace}_parts", ((reader,), read([x], trace, (reader,)))
        held = getattr(board, name)
        if held is None:
            setattr(board, name, [one])
        else:
            held.append(one)
    elif where == CHECKPOINT:
        name, _ = _carrier_at(key, trace, x.device, room)
        read_within([x], getattr(board, name), trace, (reader,))
    else:
        _note(trace, (reader,), f"compiled code cannot return a statistic from {where}")
    return value


def read_values(here: Here, values: Values, room: int) -> None:
    """Reads the tensors of some values at once."""
    tensors, readers, others = _of_one_device(values)
    if others:
        read_values(here, others, room)
    if not tensors:
        return
    board, key, is_within, _ = here
    trace, where = _trace_here(key, is_within)
    if not where:
        _keep(board, f"{trace}_parts", (readers, read(tensors, trace, readers)))
    elif where == CHECKPOINT:
        name, _ = _carrier_at(key, trace, tensors[0].device, room)
        read_within(tensors, getattr(board, name), trace, readers)
    else:
        _note(trace, readers, f"compiled code cannot return a statistic from {where}")


def read_gradients(here: Here, values: Values, room: int) -> None:
    """Reads the gradients of some new values, of which nothing is changed in place."""
    tensors, readers, others = _of_one_device(values)
    if others:
        read_gradients(here, others, room)
    if not (tensors and is_grad_enabled()):
        return
    board, key, is_within, graph = here
    trace, where = _trace_here(key, is_within)
    if where and where != CHECKPOINT:
        _note(trace, readers, f"compiled code cannot return a statistic from {where}")
        return
    if not _has_begun(key, graph):
        _note(trace, readers, SPLIT)
        return
    name, index = _carrier_at(key, trace, tensors[0].device, room)
    carrier, within = getattr(board, name), bool(where)
    tickets = [watch(tensors, None, carrier, index, trace, readers, within, False)]
    for name, other in _other_carriers(key, trace, readers, index):
        carrier = getattr(board, name)
        tickets.append(watch(tensors, None, carrier, other, trace, readers, within, False))
    if not where:
        for ticket in tickets:
            _keep(board, f"{trace}_tickets", ticket)


def read_gradient(
    here: Here, value: Any, given: Any, aliasing: Aliasing, pick: Pick, reader: str, room: int
) -> Any:
    """``value``, with the gradient of its tensor read."""
    y = value if pick is None and type(value) is Tensor else find_tensor(value, pick)
    return value if y is None else _watched(here, value, y, None, aliasing, reader, room)


def read_pair(
    here: Here, value: Any, given: Any, aliasing: Aliasing, pick: Pick, reader: str, room: int
) -> Any:
    """``value``, with its gradient read beside a tensor of what was given."""
    y, x = find_tensor(value, None), find_tensor(given, pick)
    if y is None or x is None:
        return value
    return _watched(here, value, y, x.detach(), aliasing, reader, room)


def read_result(
    here: Here, value: Any, given: Any, aliasing: Aliasing, pick: Pick, reader: str, room: int
) -> Any:
    """Reads a call with its result, which is returned."""
    board, key, is_within, _ = here
    call = given if isinstance(given, Call) else Call((given,), {})
    trace, where = _trace_here(key, is_within)
    if where:
        _note(trace, (reader,), f"compiled code cannot return the statistic of a call from {where}")
    else:
        states = read_call(call.args, call.kwargs, call.function, value, trace, reader)
        _keep(board, f"{trace}_parts", ((reader,), states))
    return value


def read_span(
    here: Here, value: Any, given: Any, aliasing: Aliasing, pick: Pick, reader: str, room: int
) -> Any:
    """The value, with a note that spans are not read."""
    _, key, is_within, _ = here
    trace, _ = _trace_here(key, is_within)
    _note(trace, (reader,), NO_SPANS)
    return value


READ_BY: dict[What, Callable[..., Any]] = {
    "value": read_value,
    "gradient": read_gradient,
    "pair": read_pair,
    "call": read_result,
    "span": read_span,
}
"""The function of each step."""


def room_of(gradients: int) -> int:
    """The size of a new carrier, for so many due readings of gradients."""
    return _ROOM * gradients


def _watched(
    here: Here, value: Any, y: Tensor, x: Tensor | None, aliasing: Aliasing, reader: str, room: int
) -> Any:
    """``value``, with the gradient of its ``y`` read, beside ``x`` if that is given."""
    board, key, is_within, _ = here
    trace, where = _trace_here(key, is_within)
    if value is not y or isinstance(y, Parameter):
        why = _why_not(value, y, aliasing)
        if why:
            _note(trace, (reader,), why)
            return value
    if not (y.requires_grad and is_grad_enabled()):
        return value
    if where and where != CHECKPOINT:
        _note(trace, (reader,), f"compiled code cannot return a statistic from {where}")
        return value
    # For an input, a view: changing it in place reaches all other names of the input. A hook on
    # the input itself would see the gradient of its other uses, too.
    alias = y
    if aliasing not in _SHARED:
        alias = alias_of(y) if aliasing == "given" else apart(y)
    readers, in_checkpoint, drops = (reader,), bool(where), aliasing == "dropout's"
    name, index = _carrier_at(key, trace, y.device, room)
    ticket = watch([alias], x, getattr(board, name), index, trace, readers, in_checkpoint, drops)
    tickets = [ticket]
    for name, other in _other_carriers(key, trace, readers, index):
        carrier = getattr(board, name)
        tickets.append(watch([alias], x, carrier, other, trace, readers, in_checkpoint, drops))
    if not where:
        for ticket in tickets:
            _keep(board, f"{trace}_tickets", ticket)
    if aliasing in _SHARED:
        return value
    return alias if value is y else replace_tensor(value, y, alias)


def _of_one_device(values: Values) -> tuple[list[Tensor], tuple[str, ...], Values]:
    """The tensors of values on the device of the first, their readers, and the other values."""
    tensors, readers, others = [], [], []
    for value, pick, reader in values:
        x = value if pick is None and type(value) is Tensor else find_tensor(value, pick)
        if x is None:
            continue
        if tensors and x.device != tensors[0].device:
            others.append((value, pick, reader))
        else:
            tensors.append(x)
            readers.append(reader)
    return tensors, tuple(readers), tuple(others)


def _why_not(value: Any, y: Tensor, aliasing: Aliasing) -> str:
    """The reason why its gradient cannot be read; empty if there is none."""
    if isinstance(y, Parameter):
        return PARAMETER
    if aliasing not in _SHARED and not stands_in(value, y):
        return "the tensor there is held by another object: read its gradient without compiling"
    return ""


def _keep(board: Board, name: str, one: Any) -> None:
    """Appends to the list that the board has under a name, if it has one yet."""
    held = getattr(board, name)
    if held is None:
        setattr(board, name, [one])
    else:
        held.append(one)


def end_forward(board: Board) -> None:
    """Leaves the statistics of this forward on the board, for Python or for the next forward."""
    key, is_within = board.key, board.is_within
    trace = _trace_begun(key)
    if not trace:
        return
    parts = getattr(board, f"{trace}_parts") or []
    tickets = getattr(board, f"{trace}_tickets") or []
    carriers = [getattr(board, name) for name in _carriers(key, trace)]
    # One graph may hold several parts of the model, each of which has an end of its own, or, where
    # the code around the model is compiled with it, several forwards.
    earlier = _left_earlier(trace)
    before_it = getattr(board, earlier) if earlier and not is_within else []
    left = [*before_it, *left_together(parts, carriers, trace, len(before_it))]
    setattr(board, f"{trace}_parts", None)
    place = _place_left(key, trace)
    if is_within:
        before = getattr(board, place)
        if before is not None:
            left = merged(before, left, trace)
    setattr(board, place, left)
    if carriers:
        ticket = getattr(board, f"{trace}_ticket")
        tickets = [ticket, *tickets] if earlier and ticket is not None else tickets
        setattr(board, f"{trace}_tickets", None)
        setattr(board, f"{trace}_ticket", one_of(tickets, carriers, trace))


# All of these are called with constants only: the compiler runs them once, as ordinary Python,
# while it traces. It sees an attribute that they set, but not a new entry of a dictionary.


@constant_when_compiled
def _trace_here(board: str, is_within: bool) -> tuple[str, str]:
    """The graph that the compiler is making, and the innermost construct there that calls us."""
    return _trace(BOARDS[board], is_within=is_within).key, body_under_way()


@constant_when_compiled
def _trace_begun(board: str) -> str:
    """The graph that the compiler is making, if anything is read in it."""
    making = BOARDS[board].making
    return making[1].key if making and making[0]() is TracingContext.try_get() else ""


@constant_when_compiled
def _carrier_at(board: str, trace: str, device: torch.device, room: int) -> tuple[str, int]:
    found = TRACES[trace]
    index = found.carrier_at(device, room)
    return _put(board, found, index), index


@constant_when_compiled
def _other_carriers(
    board: str, trace: str, readers: tuple[str, ...], index: int
) -> tuple[tuple[str, int], ...]:
    """The carriers of states of readers that had no room in the given one."""
    found = TRACES[trace]
    rooms = (room.tensor for entry, room in found.rooms.items() if entry.reader in readers)
    others = [other for other in dict.fromkeys(rooms) if other != index]
    return tuple((_put(board, found, other), other) for other in others)


@constant_when_compiled
def _carriers(board: str, trace: str) -> tuple[str, ...]:
    found = TRACES[trace]
    return tuple(_put(board, found, index) for index in range(len(found.carriers)))


@constant_when_compiled
def _left_earlier(trace: str) -> str:
    """The name of the results of what ended earlier in this graph, or ``""``."""
    found = TRACES[trace]
    found.ends += 1
    return found.place if found.ends > 1 else ""


@constant_when_compiled
def _place_left(board: str, trace: str) -> str:
    found = BOARDS[board]
    place = found.place_left(TRACES[trace])
    if not hasattr(found, place):
        setattr(found, place, None)
    return place


@constant_when_compiled
def _note(trace: str, readers: tuple[str, ...], why: str) -> bool:
    TRACES[trace].notes |= dict.fromkeys(readers, why)
    return True


@constant_when_compiled
def _begin(board: str, graph: str) -> bool:
    BOARDS[board].begun[graph] = weakref.ref(TracingContext.get())
    return True


@constant_when_compiled
def _has_begun(board: str, graph: str) -> bool:
    """True if the compiler is still making the graph in which this one of ours has begun."""
    begun = BOARDS[board].begun.get(graph)
    return begun is not None and begun() is TracingContext.get()


def _put(board: str, trace: Trace, index: int) -> str:
    name = trace.carrier(index)
    if not hasattr(BOARDS[board], name):
        BOARDS[board].put_carrier(trace, index)
    return name


def _trace(board: Board, *, is_within: bool) -> Trace:
    under_way = TracingContext.get()
    if board.making is None or board.making[0]() is not under_way:
        trace = Trace(board.held, is_within)
        board.traces.append(trace)
        board.making = weakref.ref(under_way), trace
        vars(board).update(trace.nothing)
    return board.making[1]
