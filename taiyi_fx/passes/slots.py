"""Slots: the statistic of each reading at each call, while a step lasts."""

from __future__ import annotations

import itertools
import weakref

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from taiyi_fx.passes.ir import CALL_PORTS, GRADIENT_PORTS, Mode, Plan, Reading, State

_SLOTS: weakref.WeakValueDictionary[str, Slot] = weakref.WeakValueDictionary()
_KEYS = itertools.count()
CLOCK = itertools.count()
"""The order in which slots are folded into."""


class Slot:
    """The statistic of one reading at one call, while a step lasts.

    Run eagerly, a slot holds a state and replaces it. In compiled code nothing in Python may
    happen while gradients flow, so there the state is a set of preallocated cells, written in
    place: plain tensors, never buffers, which DistributedDataParallel would overwrite.

    Attributes:
        state: What eager folds left, or None.
        cells: A count of folds and the state, for compiled code, or None.
        shape: The shape last seen.
        module: The module's name.
        failure: Why a fold did not succeed in this step, or None.
        handles: Hooks on tensors that outlive the step.
        note: Why nothing may be here, as far as the forward pass could tell.
        order: When it was last folded into, beside others: larger is later.
    """

    def __init__(self, module: str, reading: Reading) -> None:
        self.module = module
        self.reading = reading
        self.key = f"{next(_KEYS)}"
        self.state: State | None = None
        self.cells: State | None = None
        self.shape: torch.Size | None = None
        self.failure: Exception | None = None
        self.note: str | None = None
        self.order = 0
        self.handles: list[RemovableHandle] = []
        _SLOTS[self.key] = self

    def fold(self, measured: State) -> None:
        """Takes in the statistic of one more tensor."""
        merge = self.reading.reduction.merge
        self.state = measured if self.state is None else merge(self.state, measured)

    def clear(self) -> None:
        """Forgets the step."""
        self.state = self.failure = self.note = None
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        if self.cells is not None:
            self.cells[0].zero_()

    def read(self) -> tuple[State, Tensor | None] | None:
        """The state, and where only the device knows whether there is one, the count of folds."""
        if self.cells is None:
            return None if self.state is None else (self.state, None)
        count, *cells = (cell[0].clone() for cell in self.cells)  # the next step writes there
        if self.state is None:
            return tuple(cells), count
        merged = self.reading.reduction.merge(self.state, tuple(cells))
        if any(m.shape != s.shape for m, s in zip(merged, self.state, strict=True)):
            return (merged if count > 0 else self.state), None  # the host has to ask
        return where(count > 0, merged, self.state), None


class SlotTable:
    """All slots of an instrumented model, by mode, module and call.

    Attributes:
        plan: The targets, whose readings get slots at each of their calls.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._slots: dict[tuple[Mode, str, int], dict[Reading, Slot]] = {}

    def at(self, mode: Mode, module: str, call: int) -> dict[Reading, Slot]:
        """The slots of one call, made when first asked for."""
        key = mode, module, call
        if key not in self._slots:
            self._slots[key] = {r: Slot(module, r) for r in self.plan[module].at(*CALL_PORTS)}
        return self._slots[key]

    def calls(self, mode: Mode, module: str) -> int:
        """How many calls of the module in one forward have been seen so far."""
        return next(n for n in itertools.count() if (mode, module, n) not in self._slots)

    def states(self) -> list[tuple[Slot, State]]:
        """What the step has brought so far."""
        every = (slot for slots in self._slots.values() for slot in slots.values())
        return [(slot, slot.state) for slot in every if slot.state is not None]

    def restore(self, states: list[tuple[Slot, State]]) -> None:
        """Takes the step back to what it had brought then."""
        for slots in self._slots.values():
            for slot in slots.values():
                slot.state = slot.failure = None
        for slot, state in states:
            slot.state = state

    def clear(self) -> None:
        """Forgets the step everywhere."""
        for slots in self._slots.values():
            for slot in slots.values():
                slot.clear()

    def drop(self) -> None:
        """Gives up all memory: what is folded next may be elsewhere."""
        for slots in self._slots.values():
            for slot in slots.values():
                slot.state = slot.cells = None


def where(condition: Tensor, a: State, b: State) -> State:
    """The parts of one state or the other, as the device decides."""
    return tuple(torch.where(condition, x, y) for x, y in zip(a, b, strict=True))


@torch.compiler.assume_constant_result
def allocate(
    key: str,
    shapes: tuple[tuple[int, ...], ...],
    dtypes: tuple[torch.dtype, ...],
    device: torch.device,
) -> bool:
    """Gives a slot its cells; runs once, while the compiler traces, as ordinary Python."""
    slot = _SLOTS[key]
    # Compiled code runs in the order that it is traced in, and its backward in reverse.
    slot.order = next(CLOCK) * (-1 if slot.reading.site.port in GRADIENT_PORTS else 1)
    # Of at least one axis: compiled code takes a float64 without any for a Python number, and
    # loses what is written into it.
    kinds = zip(((), *shapes), (torch.int64, *dtypes), strict=True)
    wanted = [((1, *shape), dtype) for shape, dtype in kinds]
    have = [(tuple(c.shape), c.dtype) for c in slot.cells or ()]
    if have != wanted or (slot.cells and slot.cells[0].device != device):
        slot.cells = tuple(torch.zeros(s, dtype=d, device=device) for s, d in wanted)
        for cell in slot.cells:
            # CUDA graphs are given up where they would write into what may move.
            torch._dynamo.mark_static_address(cell)
    return True
