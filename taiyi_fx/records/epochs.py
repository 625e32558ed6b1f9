"""Statistics of each scalar series over an epoch."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch

from taiyi_fx.passes.ir import Mode
from taiyi_fx.records.record import Block, Record
from taiyi_fx.reductions import Quantiles

_WAITING = 256
"""Blocks that wait to be added up in streaming statistics."""

Statistics = Literal["exact", "streaming"]
"""Keep an epoch's values until its end, for quantiles; or add them up one by one."""


@dataclass(frozen=True)
class EpochSummary:
    """The statistics of one scalar series in one epoch. A NaN among the values gives NaN.

    Attributes:
        epoch: The epoch's number.
        module: The series' module.
        quantity: The quantity's name.
        mode: Of the forwards.
        count: The number of records.
        mean: Of the values.
        std: Their unbiased standard deviation; NaN for a single one.
        min: The smallest.
        max: The largest.
        lower_quartile: The 25 % quantile, linear between values; None when streaming.
        median: The same at 50 %.
        upper_quartile: The same at 75 %.
    """

    epoch: int
    module: str
    quantity: str
    mode: Mode
    count: int
    mean: float
    std: float
    min: float
    max: float
    lower_quartile: float | None = None
    median: float | None = None
    upper_quartile: float | None = None


class Epochs:
    """Statistics of the epoch under way, series by series.

    Args:
        statistics: ``"exact"`` keeps an epoch's values; ``"streaming"`` five numbers a series.

    Attributes:
        next: The number of the epoch under way.
    """

    def __init__(self, statistics: Statistics) -> None:
        self._make: type[_SeriesStatistics] = _Exact if statistics == "exact" else _Streaming
        self._may_wait = math.inf if statistics == "exact" else _WAITING
        # The blocks are added up beside, and all replaced at once: an interrupt doubles none. The
        # third is the block that came last.
        self._state: tuple[_BySeries, list[Block], Block | None] = {}, [], None
        self.next = 0

    def add(self, record: Record) -> None:
        """Adds a record; records of tensors are left out."""
        if isinstance(record.value, torch.Tensor):
            return
        series = ((record.module, record.quantity),)
        self.add_block(Block(record.step, record.mode, series, (record.value,)))

    def add_block(self, block: Block) -> None:
        """Adds the numbers of a block."""
        self.extend([block])

    def extend(self, new: Sequence[Block]) -> None:
        """Adds the numbers of blocks, unless they were just added."""
        _, blocks, last = self._state
        if new and (blocks[-1] if blocks else last) is not new[-1]:
            blocks.extend(new)
        if len(blocks) >= self._may_wait:
            self._state = self._added_up(), [], blocks[-1]

    def _added_up(self) -> _BySeries:
        kept, blocks, _ = self._state
        found = copy.deepcopy(kept)
        for _, mode, series, values in blocks:
            for (module, quantity), value in zip(series, values, strict=True):
                key = module, quantity, mode
                if key not in found:
                    found[key] = self._make()
                found[key].add(float(value))
        return found

    def close(self, epoch: int | None) -> list[EpochSummary]:
        """Ends the epoch under way, by default the one after the last, and gives its summaries."""
        number = self.next if epoch is None else epoch
        closed = [kept.summary(number, *key) for key, kept in self._added_up().items()]
        self._state = {}, [], None
        self.next = number + 1
        return closed

    def clear(self) -> None:
        """Drops the values of the epoch under way."""
        self._state = {}, [], None


class _SeriesStatistics(Protocol):
    def add(self, value: float) -> None: ...

    def summary(self, epoch: int, module: str, quantity: str, mode: Mode) -> EpochSummary: ...


_BySeries = dict[tuple[str, str, Mode], _SeriesStatistics]


class _Exact:
    """All values, for exact quantiles."""

    def __init__(self) -> None:
        self._values: list[float] = []

    def add(self, value: float) -> None:
        self._values.append(value)

    def summary(self, epoch: int, module: str, quantity: str, mode: Mode) -> EpochSummary:
        x = torch.tensor(self._values, dtype=torch.float64)
        std = x.std().item() if len(x) > 1 else math.nan
        numbers = x.mean().item(), std, x.min().item(), x.max().item()
        (quartiles, _) = Quantiles(q=(0.25, 0.5, 0.75), exact=True).finish((x,))
        return EpochSummary(epoch, module, quantity, mode, len(x), *numbers, *quartiles.tolist())


@dataclass
class _Streaming:
    """Mean and spread by Welford's method, with the smallest and the largest value."""

    count: int = 0
    mean: float = 0.0
    square_deviations: float = 0.0
    ends: list[float] = field(default_factory=lambda: [math.inf, -math.inf])

    def add(self, value: float) -> None:
        self.count += 1
        if math.isinf(value) or math.isinf(self.mean):
            self.mean, self.square_deviations = self.mean + value, math.nan
            self._extend(value)
            return
        delta = value - self.mean
        self.mean += delta / self.count
        self.square_deviations += delta * (value - self.mean)
        self._extend(value)

    def _extend(self, value: float) -> None:
        low, high = self.ends
        is_nan = math.isnan(value) or math.isnan(low)
        self.ends = [math.nan] * 2 if is_nan else [min(low, value), max(high, value)]

    def summary(self, epoch: int, module: str, quantity: str, mode: Mode) -> EpochSummary:
        n = self.count
        std = math.sqrt(self.square_deviations / (n - 1)) if n > 1 else math.nan
        return EpochSummary(epoch, module, quantity, mode, n, self.mean, std, *self.ends)
