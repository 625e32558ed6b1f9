"""Slots: the statistic of each reading at each call, while a step lasts."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle
from torch.utils.weak import WeakTensorKeyDictionary

from taiyi_fx.passes.ir import CALL_PORTS, Mode, Numbers, Plan, Reading, State
from taiyi_fx.passes.probes.accumulate import without_frames
from taiyi_fx.passes.probes.held import Held
from taiyi_fx.passes.probes.traces import Part, Reader, Trace

_KEYS = itertools.count()

BOARDS: weakref.WeakValueDictionary[str, Board] = weakref.WeakValueDictionary()
"""By the texts that compiled code has for them."""

_TYPES = {int: torch.int64, float: torch.float64}


class Board:
    """What the slots of a model have in common.

    Compiled code leaves here what it reads, under names that are texts in the code.

    Attributes:
        key: The text that compiled code has for it.
        touched: The slots that a step has left something in, by their keys.
        held: The small tensors that are still to be folded.
        given: By a view that a call was given instead, the model's own tensor. The call may return
            the view, and then the gradient of its output is that of the tensor.
        readers: What is read of one tensor in compiled code, each once.
        traces: The graphs that the compiler made.
        left: What their forwards left that is still to be unpacked.
        is_open: Whether a forward runs whose end leaves what compiled code reads.
        is_within: Whether the code around the model is compiled with it.
        making: A reference to what the compiler is at work on, or was last, and the graph that it
            makes of it.
    """

    def __init__(self) -> None:
        self.key = f"board{next(_KEYS)}"
        self.touched: dict[str, Slot] = {}
        self.held = Held()
        self.given = WeakTensorKeyDictionary()
        self.readers: dict[Any, Reader] = {}
        self.traces: list[Trace] = []
        self.left: list[tuple[Trace, list[Part] | None, list[Tensor] | None]] = []
        self.is_open = self.is_within = False
        self.making: tuple[Callable[[], Any], Trace] | None = None
        self._reductions: dict[Any, Any] = {}
        BOARDS[self.key] = self

    def take_left(self) -> None:
        """Takes what forwards of compiled code left, so that the next has room for its own."""
        for trace in self.traces:
            trace.take()

    def drop_left(self) -> None:
        """The same for a forward that failed."""
        self.take_left()
        self.left.clear()

    def drop(self) -> None:
        """Lets go of all that has come and waits."""
        self.held.clear()
        self.drop_left()
        for trace in self.traces:
            trace.drop()

    def measure(self) -> None:
        """Folds all that has come and waits."""
        self.held.measure()
        if self.traces:
            self.take_left()
            left, self.left = self.left, []
            for trace, parts, whole in left:
                trace.unpack(parts, whole)
            for trace in self.traces:
                trace.unpack_gradients()

    def one_of(self, reduction: Any) -> Any:
        """One and the same object for all equal reductions."""
        return self._reductions.setdefault(reduction, reduction)


class Slot:
    """The statistic of one reading at one call, while a step lasts.

    Attributes:
        found: The state, or None.
        shape: The shape first seen.
        module: The module's name.
        failure: Why a fold did not succeed in this step, or None.
        handles: Hooks on tensors that outlive the step.
        note: Why nothing may be here, as far as the forward pass could tell.
        order: When it was last folded into, beside others: larger is later.
        is_joined: Whether it becomes one with those of other ranks.
        ranks: Those that hold parts of what was folded, or None where each has its own.
    """

    def __init__(
        self,
        module: str,
        reading: Reading,
        board: Board | None = None,
        *,
        is_joined: bool = False,
    ) -> None:
        self.module = module
        self.reading = reading
        self.key = f"slot_{next(_KEYS)}"
        self.board = Board() if board is None else board
        self._touched = self.board.touched
        self.found: State | Numbers | None = None
        self.shape: torch.Size | None = None
        self.failure: Exception | None = None
        self.note: str | None = None
        self.order = 0
        self.is_joined = is_joined
        self.ranks: tuple[int, ...] | None = None
        self.handles: list[RemovableHandle] = []

    @property
    def state(self) -> State | None:
        """What was folded, as tensors."""
        self.board.held.settle()
        if self.found is None:
            return None
        state = self.found = in_tensors(self.found)
        return state

    def fold(self, measured: State | Numbers, shape: torch.Size | None = None) -> None:
        """Takes in the statistic of one more tensor, unless one before it failed."""
        if self.found is not None:
            self.found = self.reading.reduction.merge(in_tensors(self.found), in_tensors(measured))
        elif self.failure is None:
            self.found = measured
            self._touched[self.key] = self
            if self.shape is None:
                self.shape = shape

    def fail(self, error: Exception) -> None:
        """Takes in that a fold did not succeed: the step's statistic would not be whole."""
        self.failure, self.found = without_frames(error), None
        self._touched[self.key] = self

    def leave(self, note: str) -> None:
        """Notes why nothing may come here."""
        self.note = note
        self._touched[self.key] = self

    def clear(self) -> None:
        """Forgets the step."""
        self.found = self.failure = self.note = None
        if self.handles:
            for handle in self.handles:
                handle.remove()
            self.handles.clear()


class SlotTable:
    """All slots of an instrumented model, by mode, module and call.

    Attributes:
        plan: The targets, whose readings get slots at each of their calls.
        board: What its slots have in common.
        version: Another number whenever there are more calls than before.
        before: What the step had brought before the forward that is under way, or the last.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._slots: dict[tuple[Mode, str, int], dict[Reading, Slot]] = {}
        self.board = Board()
        self._touched = self.board.touched
        self._is_joined = False
        self.version = 0
        self.before: list[tuple[Slot, State | Numbers]] = []

    def at(self, mode: Mode, module: str, call: int) -> dict[Reading, Slot]:
        """The slots of one call, made when first asked for."""
        key = mode, module, call
        if key not in self._slots:
            readings = self.plan[module].at(*CALL_PORTS)
            self.version += 1
            self._slots[key] = {
                r: Slot(module, r, self.board, is_joined=self._is_joined) for r in readings
            }
        return self._slots[key]

    def join(self) -> None:
        """What is read becomes one with what other ranks read."""
        self._is_joined = True
        for slot in self._every():
            slot.is_joined = True

    def calls(self, mode: Mode, module: str) -> int:
        """How many calls of the module in one forward have been seen so far."""
        return next(n for n in itertools.count() if (mode, module, n) not in self._slots)

    def measure(self) -> None:
        """Folds all that has come and waits; what the step has brought is lost where that fails."""
        try:
            self.board.measure()
        except Exception as error:  # noqa: BLE001 - never ends a training run; told at `track`
            self.board.drop()
            for slot in self._every():
                slot.fail(error)

    def states(self) -> list[tuple[Slot, State | Numbers]]:
        """What the step has brought so far."""
        self.measure()
        self.board.held.settle()
        return [(slot, slot.found) for slot in self._touched.values() if slot.found is not None]

    def begin_forward(self) -> None:
        """Keeps what the step has brought before one more forward."""
        self.before = self.states()

    def restore(self) -> None:
        """Takes the step back to what it had brought before the forward."""
        self.board.held.let_go()
        self.board.drop_left()
        for slot in self._touched.values():
            slot.found = slot.failure = None
        for slot, state in self.before:
            slot.found = state

    def clear(self) -> None:
        """Forgets the step everywhere."""
        self.before = []
        self.board.drop()
        for slot in self._touched.values():
            slot.clear()
        self._touched.clear()

    def drop(self) -> None:
        """Gives up all memory: what is folded next may be elsewhere."""
        self.board.drop()
        for slot in self._every():
            slot.found = None

    def _every(self) -> Iterator[Slot]:
        return (slot for slots in self._slots.values() for slot in slots.values())


def in_tensors(found: State | Numbers) -> State:
    """A state as tensors; one that is so already, as it is."""
    if not any(type(x) in _TYPES for x in found):
        return cast(State, found)
    return tuple(
        x if isinstance(x, Tensor) else torch.tensor(x, dtype=_TYPES[type(x)]) for x in found
    )


def stacked(each: Sequence[State | Numbers]) -> State:
    """Many states, as one whose parts have an axis more."""
    columns = list(zip(*each, strict=True))
    if any(Tensor in map(type, column) for column in columns):
        columns = zip(*map(in_tensors, each), strict=True)
        return tuple(map(torch.stack, columns))
    return tuple(torch.tensor(column, dtype=_TYPES[type(column[0])]) for column in columns)


def where(condition: Tensor, a: State, b: State) -> State:
    """The parts of one state or the other, as the device decides."""
    return tuple(torch.where(condition, x, y) for x, y in zip(a, b, strict=True))
