"""Slots: the statistic of each reading at each call, while a step lasts."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from taiyi_fx.passes.ir import CALL_PORTS, GRADIENT_PORTS, Mode, Numbers, Plan, Reading, State
from taiyi_fx.passes.probes.addresses import refusal_of, without_frames
from taiyi_fx.passes.probes.cells import Kind, new_cells, unpacked
from taiyi_fx.passes.probes.folds import CLOCK
from taiyi_fx.passes.probes.held import Held

_SLOTS: weakref.WeakValueDictionary[str, Slot] = weakref.WeakValueDictionary()
_KEYS = itertools.count()

_TYPES = {int: torch.int64, float: torch.float64}


class Board:
    """What the slots of a model have in common.

    Compiled code finds slots and their cells here, by names that are texts in the code. The
    compiler checks at each call every object that it went through, so the way is short; and it sees
    an attribute that was set while it traced, but not a new entry of a dictionary that it has read
    before.

    Attributes:
        touched: The slots that a step has left something in, by their keys.
        held: The small tensors that are still to be folded.
    """

    def __init__(self) -> None:
        self.touched: dict[str, Slot] = {}
        self.held = Held()
        self._reductions: dict[Any, Any] = {}

    def one_of(self, reduction: Any) -> Any:
        """One and the same object for all equal reductions."""
        return self._reductions.setdefault(reduction, reduction)


class Slot:
    """The statistic of one reading at one call, while a step lasts.

    Run eagerly, a slot holds a state and replaces it. In compiled code nothing in Python may
    happen while gradients flow, so there the state is a set of preallocated cells, written in
    place: plain tensors, never buffers, which DistributedDataParallel would overwrite.

    Attributes:
        found: What eager folds left, or None.
        cells: The state in compiled code, or None.
        kinds: Of the state's parts there.
        shape: The shape first seen.
        module: The module's name.
        failure: Why a fold did not succeed in this step, or None.
        refusal: Why none can in compiled code, or None.
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
        self.cells: State | None = None
        self.kinds: tuple[Kind, ...] = ()
        self.shape: torch.Size | None = None
        self.failure: Exception | None = None
        self.refusal: Exception | None = None
        self.note: str | None = None
        self.order = 0
        self.is_joined = is_joined
        self.ranks: tuple[int, ...] | None = None
        self.handles: list[RemovableHandle] = []
        setattr(self.board, self.key, self)
        _SLOTS[self.key] = self

    @property
    def state(self) -> State | None:
        """What eager folds left, as tensors."""
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

    def fail_as_refused(self) -> None:
        """The same for compiled code, where what it would fold cannot be measured."""
        self.failure = self.refusal
        self._touched[self.key] = self

    def leave(self, note: str) -> None:
        """Notes why nothing may come here."""
        self.note = note
        self._touched[self.key] = self

    def keep_in(self, kinds: tuple[Kind, ...], cells: State | None) -> None:
        """Takes these cells for compiled code, or gives up those that it had."""
        for i in range(len(self.cells or ())):
            delattr(self.board, cell_name(self.key, i))
        for i, cell in enumerate(cells or ()):
            # The compiler then takes it for a constant, and checks only that it is the same one.
            # Besides, CUDA graphs are given up where they would write into what may move.
            torch._dynamo.mark_static_address(cell, guard=True)
            setattr(self.board, cell_name(self.key, i), cell)
        self.kinds, self.cells = kinds, cells

    def clear(self) -> None:
        """Forgets the step."""
        self.found = self.failure = self.note = None
        if self.handles:
            for handle in self.handles:
                handle.remove()
            self.handles.clear()

    def read(self) -> tuple[State, Tensor | None] | None:
        """The state, and where only the device knows whether there is one, the count of folds."""
        if self.cells is None:
            return None if self.state is None else (self.state, None)
        copied = tuple(cell.clone() for cell in self.cells)  # the next step writes there
        count, state = unpacked(copied, self.kinds)
        if self.state is None:
            return state, count.long()
        merged = self.reading.reduction.merge(self.state, state)
        if any(m.shape != s.shape for m, s in zip(merged, self.state, strict=True)):
            return (merged if count > 0 else self.state), None  # the host has to ask
        return where(count > 0, merged, self.state), None


def cell_name(key: str, i: int) -> str:
    """The name of a slot's cell on the board."""
    return f"{key}_cell_{i}"


class _Allocations:
    """How often any slot was given cells."""

    count = 0


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
        self._counts: list[Tensor] = []
        self._allocations = 0
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

    def states(self) -> list[tuple[Slot, State | Numbers]]:
        """What the step has brought so far."""
        self.board.held.measure()
        self.board.held.settle()
        return [(slot, slot.found) for slot in self._touched.values() if slot.found is not None]

    def begin_forward(self) -> None:
        """Keeps what the step has brought before one more forward."""
        self.before = self.states()

    def restore(self) -> None:
        """Takes the step back to what it had brought before the forward."""
        self.board.held.let_go()
        for slot in self._touched.values():
            slot.found = slot.failure = None
        for slot, state in self.before:
            slot.found = state

    def clear(self) -> None:
        """Forgets the step everywhere."""
        self.before = []
        self.board.held.clear()
        for slot in self._touched.values():
            slot.clear()
        self._touched.clear()
        if self._allocations != _Allocations.count:
            self._allocations = _Allocations.count
            self._counts = [s.cells[0][:1] for s in self._every() if s.cells is not None]
        if self._counts:
            torch._foreach_zero_(self._counts)  # pyright: ignore[reportPrivateImportUsage]

    def drop(self) -> None:
        """Gives up all memory: what is folded next may be elsewhere."""
        self.board.held.clear()
        for slot in self._every():
            slot.found = None
            slot.keep_in((), None)
        self._counts = []

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


@torch.compiler.assume_constant_result
def come_next(key: str) -> bool:
    """Puts a slot behind all others; runs once, while the compiler traces, as ordinary Python."""
    slot = _SLOTS[key]
    # Compiled code runs in the order that it is traced in, and its backward in reverse.
    slot.order = next(CLOCK) * (-1 if slot.reading.site.port in GRADIENT_PORTS else 1)
    return True


@torch.compiler.assume_constant_result
def take_refusal(key: str, address: str) -> bool:
    """Tells a slot why its reduction could not be taken, likewise."""
    _SLOTS[key].refusal = refusal_of(address)
    return True


@torch.compiler.assume_constant_result
def allocate(key: str, kinds: tuple[Kind, ...], device: torch.device) -> tuple[str, ...]:
    """Gives a slot its cells, likewise, behind all others; returns their names on the board."""
    come_next(key)
    slot = _SLOTS[key]
    if slot.cells is None or slot.kinds != kinds or slot.cells[0].device != device:
        if slot.cells is not None and slot.cells[0][0] > 0:
            slot.fail(ValueError(f"{slot.kinds} of one step cannot be merged with {kinds}"))
        slot.keep_in(kinds, new_cells(kinds, device))
        _Allocations.count += 1
    return tuple(cell_name(key, i) for i in range(len(slot.cells or ())))
