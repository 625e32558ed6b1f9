"""The memory of a run's writer: items that wait until they are on disk.

A batch becomes items. Items are committed in transactions, oldest first, and leave the buffer only
when their transaction is durable. Three things make this less simple than it sounds:

- A commit may fail, as on a full disk. The items stay and are tried again, up to a bound; beyond it
  the oldest numbers are dropped, and an event in the run says so.
- An interrupt may come between the moment when a transaction is durable and the moment when the
  buffer knows. So a transaction that was begun is kept and tried again as it was, under the same
  number: the writer of the format recognizes it and writes nothing twice. And every change is one
  assignment, or one call of a list's method, of an object that was completed before: an interrupt
  comes before it or after it.
- A fork of the process, as a worker of a data loader is, has a copy of the buffer. It must neither
  write nor close the file.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from taiyi_fx.passes.ir import Mode
from taiyi_fx.records.record import Series
from taiyi_fx.runs.schema import StoredSeries, from_text, to_text
from taiyi_fx.writers.protocol import Batch, RunInfo

SLICE = 250_000
"""Numbers in one transaction, where more wait."""

FULL = 1_000_000
"""Numbers that may wait for the next flush; each element of a tensor counts."""

KEPT = 4_000_000
"""Numbers that are kept while commits fail."""

_LARGEST = 999_999_000
"""Bytes that SQLite takes as one value, with room for the rest of its row."""


class StepNumbers(NamedTuple):
    """Numbers of one step, one from each of some series."""

    step: int
    epoch: int
    series: Sequence[int]
    values: Sequence[float | int]

    @property
    def size(self) -> int:
        """The count of numbers."""
        return len(self.values)


class StepTensor(NamedTuple):
    """A tensor of one series at one step, in float32 or, where that is too narrow, its own type."""

    step: int
    epoch: int
    series: int
    value: NDArray[Any]

    @property
    def size(self) -> int:
        """Its size in numbers of eight bytes."""
        return 1 + self.value.nbytes // 8


class StepEvent(NamedTuple):
    """An event of one step, with its texts as tables take them."""

    step: int
    kind: str
    module: str
    text: str

    @property
    def size(self) -> int:
        """The size of one number."""
        return 1


class EpochEnded(NamedTuple):
    """The end of an epoch, which was expected to have one number and got another or the same."""

    expected: int
    number: int

    @property
    def size(self) -> int:
        """The size of one number."""
        return 1


Item = StepNumbers | StepTensor | StepEvent | EpochEnded


class Transaction(NamedTuple):
    """Items that are committed at once; the end of an epoch is the last of its transaction.

    Attributes:
        number: Its place among the transactions. One that comes again after an interrupt has the
            same number.
        items: In the order in which they were made.
        series: The series that are new.
    """

    number: int
    items: Sequence[Item]
    series: Sequence[StoredSeries]


Commit = Callable[[Transaction], None]
"""Makes a transaction durable, once however often it comes; all of it, or it raises."""


class _Waiting(NamedTuple):
    """The waiting items, with the state that changes as they leave.

    Attributes:
        items: In the order in which they were made; only ever added to.
        left: The count of items that have left.
        number: That of the next transaction.
        stored: The count of series that are durable.
        tried: The transaction that was begun.
    """

    items: list[Item]
    left: int
    number: int
    stored: int
    tried: Transaction | None

    @property
    def taken(self) -> int:
        """The count of all items that have come so far."""
        return self.left + len(self.items)


class _Taking(NamedTuple):
    """A batch that is being added to the buffer."""

    batch: Batch
    items: list[Item]
    problems: list[str]
    taken: int


class Buffer:
    """Items that wait, in the order in which they were made. In a fork it does nothing.

    Args:
        run: Describes each series.
        known: The series that are in the file.
        commit: Makes items durable.
    """

    def __init__(self, run: RunInfo, known: Sequence[StoredSeries], commit: Commit) -> None:
        self._commit = commit
        self._process = os.getpid()
        self._numbering = _Numbering(run, known)
        self._waiting = _Waiting([], 0, 0, len(known), None)
        self._taking: _Taking | None = None
        self._size = 0
        self._has_failed = False

    @property
    def is_fork(self) -> bool:
        """True in another process than the one that opened the file."""
        return os.getpid() != self._process

    def add(self, batch: Batch) -> None:
        """Adds a batch; commits if too much waits, unless the last commit failed.

        The batch that came last may come again, as after an interrupt: it is added once.

        Raises:
            ValueError: A step or an epoch has more than 64 bits, or a tensor has 10⁹ bytes; the
                rest is taken.
            Exception: Any that `drain` raises.
        """
        if self.is_fork:
            return
        taking = self._taking
        if taking is None or taking.batch is not batch:
            taking = self._taking = self._taking_of(batch)
        if self._waiting.taken == taking.taken:
            self._waiting.items.extend(taking.items)
            self._size += sum(item.size for item in taking.items)
        if self._size >= FULL and not self._has_failed:
            self.drain()
        if taking.problems:
            raise ValueError(f"not stored: {'; '.join(taking.problems)}")

    def drain(self, *, is_last: bool = False) -> None:
        """Commits everything; items that cannot be committed stay, within bounds.

        Args:
            is_last: True at the end, when no later try can come: nothing stays.

        Raises:
            BufferError: It failed, and the oldest numbers had to be dropped.
            Exception: Any that the commit raises.
        """
        if self.is_fork:
            return
        try:
            while self._waiting.items:
                waiting = self._waiting
                new = waiting.tried or Transaction(
                    waiting.number, self._next_items(), self._numbering.after(waiting.stored)
                )
                self._waiting = waiting._replace(tried=new)
                self._commit(new)
                self._forget(new)
            self._has_failed = False
        except Exception as error:
            self._has_failed = True
            self._bound(error, 0 if is_last else KEPT)
            raise

    def _taking_of(self, batch: Batch) -> _Taking:
        every = [(item, _problem(item)) for item in self._made_of(batch)]
        items = [item for item, problem in every if not problem]
        problems = [problem for _, problem in every if problem]
        return _Taking(batch, items, problems, self._waiting.taken)

    def _made_of(self, batch: Batch) -> Iterator[Item]:
        epoch = batch.epoch
        for step, mode, series, values in batch.blocks:
            yield StepNumbers(int(step), epoch, self._numbering.of_all(series, mode), values)
        numbers: dict[tuple[int, Mode], list[tuple[int, float | int]]] = {}
        for record in batch.records:
            series = self._numbering.of((record.module, record.quantity), record.mode)
            if isinstance(record.value, Tensor):
                yield StepTensor(int(record.step), epoch, series, stored(record.value))
            else:
                numbers.setdefault((record.step, record.mode), []).append((series, record.value))
        for (step, _), pairs in numbers.items():
            yield StepNumbers(int(step), epoch, *zip(*pairs, strict=True))
        for event in (*batch.events, *batch.of_findings):
            yield StepEvent(event.step, event.kind, to_text(event.module), to_text(event.text))
        if batch.ended is not None:
            yield EpochEnded(batch.ended.expected, batch.ended.number)

    def _forget(self, done: Transaction) -> None:
        """Removes the items that are durable."""
        items, left, _, stored, _ = self._waiting
        count = len(done.items)
        self._waiting = _Waiting(
            items[count:], left + count, done.number + 1, stored + len(done.series), None
        )
        self._size = sum(item.size for item in self._waiting.items)

    def _next_items(self) -> list[Item]:
        """The oldest items up to a size, one at least, or to the end of an epoch."""
        items = self._waiting.items
        count = size = 0
        for item in items:
            size += item.size
            if count and size > SLICE:
                break
            count += 1
            if isinstance(item, EpochEnded):
                break
        return items[:count]

    def _bound(self, error: Exception, kept: int) -> None:
        """Drops the oldest numbers where there are too many, and adds an event that says so."""
        items = self._waiting.items
        size = sum(x.size for x in items if isinstance(x, (StepNumbers, StepTensor)))
        dropped: list[StepNumbers | StepTensor] = []
        rest: list[Item] = []
        for item in items:
            if size > kept and isinstance(item, (StepNumbers, StepTensor)):
                dropped.append(item)
                size -= item.size
            else:
                rest.append(item)
        if not dropped:
            return
        first, last = min(x.step for x in dropped), max(x.step for x in dropped)
        count = sum(len(x.values) if isinstance(x, StepNumbers) else x.value.size for x in dropped)
        text = f"{count:,} numbers of steps {first} to {last} could not be written and are lost"
        rest.append(StepEvent(last, "warning", "", text))
        left = self._waiting.taken - len(rest)
        self._waiting = self._waiting._replace(items=rest, left=left, tried=None)
        self._size = sum(item.size for item in rest)
        raise BufferError(f"{text}: {error}") from error


class _Numbering:
    """The id of each series in a file."""

    def __init__(self, run: RunInfo, known: Sequence[StoredSeries]) -> None:
        self._describe = run.describe
        # By their names, in the order of their ids.
        self._series = {(s.mode, s.name, from_text(s.quantity)): s for s in known}
        self._of_tuples: dict[tuple[int, Mode], tuple[Sequence[Series], list[int]]] = {}

    def after(self, count: int) -> tuple[StoredSeries, ...]:
        """The series after the first ``count``."""
        return tuple(itertools.islice(self._series.values(), count, None))

    def of(self, series: Series, mode: Mode) -> int:
        key = (mode, *series)
        if key not in self._series:
            module, call, quantity, *facts = self._describe(series)
            texts = to_text(module), call, to_text(quantity), mode, *facts
            self._series[key] = StoredSeries(len(self._series) + 1, *texts)
        return self._series[key].id

    def of_all(self, series: Sequence[Series], mode: Mode) -> list[int]:
        # The same tuple comes at each step: finding it by identity saves a thousand look-ups.
        key = id(series), mode
        if key not in self._of_tuples:
            if len(self._of_tuples) > 256:
                self._of_tuples.clear()
            self._of_tuples[key] = series, [self.of(s, mode) for s in series]
        return self._of_tuples[key][1]


def stored(tensor: Tensor) -> NDArray[Any]:
    """A tensor as an array of the same values, in float32 where that is wide enough."""
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
    """The reason why an item cannot be stored; empty if it can."""
    numbers = item._asdict()
    for name in ("step", "epoch", "number"):
        if not -(2**63) <= numbers.get(name, 0) < 2**63:
            return f"the {name.replace('number', 'epoch')} {numbers[name]} has more than 64 bits"
    if isinstance(item, StepTensor) and item.value.nbytes > _LARGEST:
        return f"a tensor at step {item.step} takes {item.value.nbytes:,} bytes, of 10⁹ at most"
    return ""
