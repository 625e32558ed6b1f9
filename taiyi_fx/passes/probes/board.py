"""The board of a model: what its slots have in common, and what compiled code leaves to them."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from taiyi_fx.passes.probes.held import Held
from taiyi_fx.passes.probes.slots import Slot
from taiyi_fx.passes.probes.traces import Part, Reader, Trace

_KEYS = itertools.count()

BOARDS: weakref.WeakValueDictionary[str, Board] = weakref.WeakValueDictionary()
"""By the texts that compiled code has for them."""


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
            self._take(trace)

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

    def put_carriers(self, trace: Trace) -> None:
        """Puts the carriers of a graph here, others than before: each forward has its own."""
        for index in range(len(trace.carriers)):
            self.put_carrier(trace, index)

    def put_carrier(self, trace: Trace, index: int) -> None:
        """Puts one of them here."""
        setattr(self, trace.carrier(index), trace.new_carrier(index))

    def place_left(self, trace: Trace) -> str:
        """Chooses, once all is known of a graph, where its forward leaves here what it reads.

        Graphs that leave the same have one place, where the code around the model is compiled with
        it: there the second forward of a step finds what the first one left.
        """
        if trace.is_within:
            alike = (t for t in self.traces if t.is_within and t.values == trace.values)
            trace.place = next(alike).place
        return trace.place

    def _take(self, trace: Trace) -> None:
        found = vars(self)
        parts, left = found.get(f"{trace.key}_parts"), found.get(trace.place)
        if parts is None and left is None:
            return
        of_forward = (f"{trace.key}_{name}" for name in ("parts", "tickets", "ticket"))
        found.update(dict.fromkeys((trace.place, *of_forward)))
        self.left.append((trace, parts, left))
        if not trace.is_within:
            self.put_carriers(trace)
