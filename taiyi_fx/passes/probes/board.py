"""The board of a model: the state that its slots share, and the results of compiled code."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor

from taiyi_fx.passes.probes.held import Held
from taiyi_fx.passes.probes.slots import Slot
from taiyi_fx.passes.probes.traces import Part, Reader, Trace

_KEYS = itertools.count()

BOARDS: weakref.WeakValueDictionary[str, Board] = weakref.WeakValueDictionary()
"""By their keys, which are constants in compiled code."""


class Board:
    """The state that the slots of a model share.

    Compiled code leaves its statistics here, under names that are constants in the code.

    Attributes:
        key: Its name in compiled code.
        touched: The slots that have a result of this step, by their keys.
        late: The slots that wait for a device, for the time that it took.
        held: The small tensors that are still to be folded.
        readers: The reductions of a tensor in compiled code, one of each set.
        traces: The graphs that the compiler made.
        left: The results of their forwards that are still to be unpacked.
        compiled: Sites of functions in forwards that stayed Python and were compiled.
        in_regions: Sites left out of compiled code, which stands for several modules there.
        is_open: True while a forward runs that will leave results of compiled code at its end.
        is_within: True if the code around the model is compiled with it.
        begun: By the keys of graphs of ours, references to the compilations that met them last.
        making: A reference to the compilation that is under way, or was last, and its graph.
    """

    def __init__(self) -> None:
        self.key = f"board{next(_KEYS)}"
        self.touched: dict[str, Slot] = {}
        self.late: list[Slot] = []
        self.held = Held()
        self.readers: dict[Any, Reader] = {}
        self.traces: list[Trace] = []
        self.left: list[tuple[Trace, list[Part] | None, list[Tensor] | None]] = []
        self.compiled: set[str] = set()
        self.in_regions: set[str] = set()
        self.is_open = self.is_within = False
        self.making: tuple[Callable[[], Any], Trace] | None = None
        self.begun: dict[str, Callable[[], Any]] = {}
        self._reductions: dict[Any, Any] = {}
        BOARDS[self.key] = self

    def take_left(self) -> None:
        """Moves results of compiled forwards to ``left``, so that the next can leave its own."""
        for trace in self.traces:
            self._take(trace)

    def drop_left(self) -> None:
        """The same for a forward that failed."""
        self.take_left()
        self.left.clear()

    def drop(self) -> None:
        """Drops all results that are not folded yet."""
        self.held.clear()
        self.late.clear()
        if self.traces:
            self.drop_left()
            for trace in self.traces:
                trace.drop()

    def measure(self, *, is_last: bool = True) -> None:
        """Folds all results that are not folded yet.

        Args:
            is_last: True if the step ends: no gradient can come again.
        """
        self.held.measure(is_last=is_last)
        while self.late:
            self.late.pop().settle()
        if self.traces:
            self.take_left()
            left, self.left = self.left, []
            for trace, parts, whole in left:
                trace.unpack(parts, whole)
            for trace in self.traces:
                trace.unpack_gradients()

    def one_of(self, reduction: Any) -> Any:
        """The first of all equal reductions, as one object for all."""
        return self._reductions.setdefault(reduction, reduction)

    def has_left(self) -> bool:
        """True if compiled code has left results that are not folded yet."""
        found = vars(self)
        for trace in self.traces:
            is_left = found.get(trace.place) is not None or found.get(trace.parts) is not None
            if is_left or any(trace.arrived):
                return True
        return bool(self.left)

    def why_nothing(self, slot: Slot) -> str | None:
        """The reason why a slot is empty, if it waits for a gradient."""
        reasons = (owner.why_nothing(slot) for owner in (self.held, *self.traces))
        return next((why for why in reasons if why is not None), None)

    def put_carriers(self, trace: Trace) -> None:
        """Puts new carriers of a graph here: each forward has its own."""
        vars(self).update(trace.new_carriers())

    def put_carrier(self, trace: Trace, index: int) -> None:
        """Puts one new carrier of a graph here."""
        setattr(self, trace.carrier(index), trace.new_carrier(index))

    def place_left(self, trace: Trace) -> str:
        """Chooses the name under which a complete graph leaves its results here.

        Where the code around the model is compiled with it, graphs with equal results share one
        name: there the second forward of a step finds the results of the first.
        """
        if trace.is_within:
            alike = (t for t in self.traces if t.is_within and t.values == trace.values)
            trace.place = next(alike).place
        return trace.place

    def _take(self, trace: Trace) -> None:
        found = vars(self)
        parts, left = found.get(trace.parts), found.get(trace.place)
        if parts is None and left is None:
            return
        found[trace.place] = None
        found.update(trace.nothing)
        self.left.append((trace, parts, left))
        if not trace.is_within:
            self.put_carriers(trace)
