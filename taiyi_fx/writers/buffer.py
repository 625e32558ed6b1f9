"""What the writers of runs hold until it is on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from taiyi_fx.passes.ir import Mode
from taiyi_fx.records.record import Series
from taiyi_fx.runs.schema import Stored, from_text, to_text
from taiyi_fx.writers.protocol import Batch, RunInfo

SLICE = 250_000
"""How many numbers are committed at once, where more are there."""

FULL = 1_000_000
"""How many numbers wait for the clock, in tensors too."""

KEPT = 4_000_000
"""How many numbers are kept where they cannot be committed."""

_LARGEST = 999_999_000
"""How many bytes SQLite takes as one value, a row with it."""


class Numbers(NamedTuple):
    """Numbers of one step, one of each of some series."""

    step: int
    epoch: int
    series: Sequence[int]
    values: Sequence[float | int]

    @property
    def size(self) -> int:
        """How many numbers."""
        return len(self.values)


class Array(NamedTuple):
    """A tensor of a series: in float32, or in its own type where that could not hold it."""

    step: int
    epoch: int
    series: int
    value: NDArray[Any]

    @property
    def size(self) -> int:
        """How many numbers of eight bytes it takes."""
        return 1 + self.value.nbytes // 8


class Told(NamedTuple):
    """An event, its texts as tables take them."""

    step: int
    kind: str
    module: str
    text: str

    @property
    def size(self) -> int:
        """As of a number."""
        return 1


class Ended(NamedTuple):
    """The end of an epoch."""

    expected: int
    number: int

    @property
    def size(self) -> int:
        """As of a number."""
        return 1


Item = Numbers | Array | Told | Ended


class Part(NamedTuple):
    """What is committed at once; the end of an epoch comes alone.

    Attributes:
        number: Its place among the parts. An interrupt may come after a part is durable and before
            that is known: then the same part comes again, under the same number.
        items: In the order of their making.
        series: Those that are new.
    """

    number: int
    items: Sequence[Item]
    series: Sequence[Stored]


Commit = Callable[[Part], None]
"""Makes a part durable, once however often it comes: all of it, or none and raises."""


class Buffer:
    """Items in the order of their making. In a fork of its process it takes and commits nothing.

    Args:
        run: Says what a series is.
        known: The series that the file has.
        commit: Makes items durable.
    """

    def __init__(self, run: RunInfo, known: Sequence[Stored], commit: Commit) -> None:
        self._commit = commit
        self._process = os.getpid()
        self._numbering = _Numbering(run, known)
        self._items: list[Item] = []
        self._size = 0
        self._number = 0
        self._tried: Part | None = None
        self._has_failed = False

    @property
    def is_fork(self) -> bool:
        """Whether this is another process than that which opened the file."""
        return os.getpid() != self._process

    def add(self, batch: Batch) -> None:
        """Takes a batch; commits if too much waits, unless that failed before.

        Raises:
            ValueError: A step or an epoch has more than 64 bits, or a tensor has 10⁹ bytes; the
                rest is taken.
            Exception: What `drain` raises.
        """
        if self.is_fork:
            return
        problems: list[str] = []
        for item in self._made_of(batch):
            problem = _problem(item)
            if problem:
                problems.append(problem)
            else:
                self._items.append(item)
                self._size += item.size
        if self._size >= FULL and not self._has_failed:
            self.drain()
        if problems:
            raise ValueError(f"not stored: {'; '.join(problems)}")

    def drain(self, *, is_last: bool = False) -> None:
        """Commits everything; what cannot be committed stays, within bounds.

        Args:
            is_last: There is no other time: nothing stays.

        Raises:
            BufferError: It failed, and the oldest numbers had to be dropped.
            Exception: What else the commit raises.
        """
        if self.is_fork:
            return
        try:
            while self._items:
                if self._tried is None:
                    self._tried = Part(self._number, self._slice(), tuple(self._numbering.new))
                self._commit(self._tried)
                self._forget(self._tried)
            self._has_failed = False
        except Exception as error:
            self._has_failed = True
            self._bound(error, 0 if is_last else KEPT)
            raise

    def _made_of(self, batch: Batch) -> Iterator[Item]:
        epoch = batch.epoch
        for step, mode, series, values in batch.blocks:
            yield Numbers(int(step), epoch, self._numbering.of_all(series, mode), values)
        numbers: dict[tuple[int, Mode], list[tuple[int, float | int]]] = {}
        for record in batch.records:
            series = self._numbering.of((record.module, record.quantity), record.mode)
            if isinstance(record.value, Tensor):
                yield Array(int(record.step), epoch, series, stored(record.value))
            else:
                numbers.setdefault((record.step, record.mode), []).append((series, record.value))
        for (step, _), pairs in numbers.items():
            yield Numbers(int(step), epoch, *zip(*pairs, strict=True))
        for event in batch.events:
            yield Told(event.step, event.kind, to_text(event.module), to_text(event.text))
        if batch.ended is not None:
            yield Ended(batch.ended.expected, batch.ended.number)

    def _forget(self, part: Part) -> None:
        """Drops what is durable."""
        rest, size = self._items[len(part.items) :], sum(item.size for item in part.items)
        new = self._numbering.new[len(part.series) :]
        # Interrupts come at calls and loops: none is in between: all is done, or nothing.
        self._items, self._tried, self._number = rest, None, part.number + 1
        self._size -= size
        self._numbering.new = new

    def _slice(self) -> list[Item]:
        """The oldest items, up to a size, but one at least; the end of an epoch alone."""
        count = size = 0
        for item in self._items:
            size += item.size
            if count and (size > SLICE or isinstance(item, Ended)):
                break
            count += 1
            if isinstance(item, Ended):
                break
        return self._items[:count]

    def _bound(self, error: Exception, kept: int) -> None:
        """Drops the oldest numbers if there are too many, and leaves word of it for the file."""
        size = sum(x.size for x in self._items if isinstance(x, (Numbers, Array)))
        dropped: list[Numbers | Array] = []
        rest: list[Item] = []
        for item in self._items:
            if size > kept and isinstance(item, (Numbers, Array)):
                dropped.append(item)
                size -= item.size
            else:
                rest.append(item)
        if not dropped:
            return
        self._tried = None
        first, last = min(x.step for x in dropped), max(x.step for x in dropped)
        count = sum(len(x.values) if isinstance(x, Numbers) else x.value.size for x in dropped)
        text = f"{count:,} numbers of steps {first} to {last} could not be written and are lost"
        self._items = [*rest, Told(last, "warning", "", text)]
        self._size = sum(item.size for item in self._items)
        raise BufferError(f"{text}: {error}") from error


class _Numbering:
    """The number that each series has in a file."""

    def __init__(self, run: RunInfo, known: Sequence[Stored]) -> None:
        self.new: list[Stored] = []
        self._describe = run.describe
        self._ids = {(s.mode, s.name, from_text(s.quantity)): s.id for s in known}
        self._together: dict[tuple[int, Mode], tuple[Sequence[Series], list[int]]] = {}

    def of(self, series: Series, mode: Mode) -> int:
        key = (mode, *series)
        if key not in self._ids:
            self._ids[key] = len(self._ids) + 1
            module, call, quantity, *facts = self._describe(series)
            texts = to_text(module), call, to_text(quantity), mode, *facts
            self.new.append(Stored(self._ids[key], *texts))
        return self._ids[key]

    def of_all(self, series: Sequence[Series], mode: Mode) -> list[int]:
        # The same tuple comes at each step: to know it by its identity spares a thousand look-ups.
        key = id(series), mode
        if key not in self._together:
            if len(self._together) > 256:
                self._together.clear()
            self._together[key] = series, [self.of(s, mode) for s in series]
        return self._together[key][1]


def stored(tensor: Tensor) -> NDArray[Any]:
    """A tensor as an array that holds the same values, in float32 if that does."""
    x = tensor.detach()
    if x.is_quantized:
        x = x.dequantize()
    if x.layout != torch.strided:
        x = x.to_dense()
    if x.is_floating_point() and x.dtype != torch.float64:
        x = x.float()
    if x.dtype == torch.complex32:
        x = x.to(torch.complex64)
    return x.resolve_conj().resolve_neg().numpy()


def _problem(item: Item) -> str:
    """Why an item cannot be stored; empty if it can."""
    numbers = item._asdict()
    for what in ("step", "epoch", "number"):
        if not -(2**63) <= numbers.get(what, 0) < 2**63:
            return f"the {what.replace('number', 'epoch')} {numbers[what]} has more than 64 bits"
    if isinstance(item, Array) and item.value.nbytes > _LARGEST:
        return f"a tensor at step {item.step} takes {item.value.nbytes:,} bytes, of 10⁹ at most"
    return ""
