"""The table of slots of a model: one slot for each reading of each call."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator

from taiyi_fx.passes.ir import CALL_PORTS, Mode, Numbers, Plan, Reading, State
from taiyi_fx.passes.probes.board import Board
from taiyi_fx.passes.probes.modes import unseen
from taiyi_fx.passes.probes.slots import Slot


class SlotTable:
    """All slots of an instrumented model, by mode, module and call.

    Attributes:
        plan: The targets, whose readings get slots at each of their calls.
        board: The board that its slots share.
        version: A number that changes whenever slots of another call are added.
        before: The states of the step before the forward that is under way, or the last one.
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
        """The slots of one call, made at first use."""
        key = mode, module, call
        if key not in self._slots:
            readings = self.plan[module].at(*CALL_PORTS)
            self.version += 1
            self._slots[key] = {r: self._new_slot(module, r) for r in readings}
        return self._slots[key]

    def _new_slot(self, module: str, reading: Reading) -> Slot:
        board = self.board
        return Slot(
            module,
            reading,
            self._touched,
            is_joined=self._is_joined,
            late=board.late,
            retained=board.held.retained,
        )

    def join(self) -> None:
        """Marks all slots for merging across ranks."""
        self._is_joined = True
        for slot in self._every():
            slot.is_joined = True

    def calls(self, mode: Mode, module: str) -> int:
        """The number of calls of the module in one forward, as far as seen."""
        return next(n for n in itertools.count() if (mode, module, n) not in self._slots)

    def measure(self, *, is_last: bool = True) -> None:
        """Folds all results that wait; if that fails, the results of the step are lost.

        Args:
            is_last: True if the step ends: no gradient can come again.
        """
        try:
            self.board.measure(is_last=is_last)
        except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
            self.board.drop()
            for slot in self._every():
                slot.fail(error)

    def states(self) -> list[tuple[Slot, State | Numbers]]:
        """The states of the step so far, with their slots."""
        self.measure(is_last=False)
        self.board.held.settle()
        return [(slot, slot.found) for slot in self._touched.values() if slot.found is not None]

    def read_slots(self) -> Iterator[Slot]:
        """The slots with a state in the step so far, of what was measured."""
        yield from (slot for slot in self._touched.values() if slot.found is not None)
        for measured in self.board.held.measured:  # which are in no slot yet
            yield from itertools.chain.from_iterable(measured.of.slots)

    def slots_of(self, mode: Mode, module: str, call: int) -> Collection[Slot]:
        """The slots of one call, as far as seen."""
        return self._slots.get((mode, module, call), {}).values()

    def begin_forward(self) -> None:
        """Saves the states of the step before one more forward."""
        board, held = self.board, self.board.held
        is_first = not (self._touched or held.tensors or held.measured)
        if is_first and not (board.traces and board.has_left()):
            self.before = []
        else:
            self.before = unseen(self.states)

    def restore(self) -> None:
        """Restores the states that the step had before the forward."""
        self.board.held.let_go()
        self.board.drop_left()
        for slot in self._touched.values():
            slot.restore(None)
        for slot, state in self.before:
            slot.restore(state)

    def clear(self) -> None:
        """Clears all slots, for the next step."""
        self.before = []
        self.board.drop()
        for slot in self._touched.values():
            slot.clear()
        self._touched.clear()

    def drop(self) -> None:
        """Releases all memory: later tensors may be on another device."""
        self.board.drop()
        for slot in self._every():
            slot.found = None

    def of(self, reading: Reading) -> Iterator[tuple[Mode, str, int, Slot]]:
        """The slots of one reading, with the mode, module and call of each, as first seen."""
        for (mode, module, call), slots in self._slots.items():
            if reading in slots:
                yield mode, module, call, slots[reading]

    def _every(self) -> Iterator[Slot]:
        return (slot for slots in self._slots.values() for slot in slots.values())
