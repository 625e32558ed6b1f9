"""Epochs: what each scalar series did between two ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch

from taiyi_fx.passes.ir import Mode
from taiyi_fx.records.record import Block, Record
from taiyi_fx.reductions import Quantiles

_WAITING = 256
"""How many blocks wait to be folded, where they are not kept anyway."""

Statistics = Literal["exact", "streaming"]
"""Whether an epoch's values are kept until its end, for quantiles, or folded one by one."""


@dataclass(frozen=True)
class EpochSummary:
    """What one scalar series did in one epoch. NaN in a value gives NaN.

    Attributes:
        epoch: The epoch's number.
        module: The series' module.
        quantity: The quantity's name.
        mode: Of the forwards.
        count: How many records there were.
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
    """Folds records until an epoch is closed.

    Args:
        statistics: ``"exact"`` keeps an epoch's values; ``"streaming"`` five numbers a series.

    Attributes:
        next: The number of the epoch under way.
    """

    def __init__(self, statistics: Statistics) -> None:
        self._make: type[_Kept] = _Values if statistics == "exact" else _Running
        self._may_wait = math.inf if statistics == "exact" else _WAITING
        self._series: dict[tuple[str, str, Mode], _Kept] = {}
        self._blocks: list[Block] = []
        self.next = 0

    def add(self, record: Record) -> None:
        """Takes in a record; those of vectors are passed over."""
        if isinstance(record.value, torch.Tensor):
            return
        self._add(record.module, record.quantity, record.mode, record.value)

    def add_block(self, block: Block) -> None:
        """Takes in the numbers of a block."""
        self._blocks.append(block)
        if len(self._blocks) >= self._may_wait:
            self._take_in()

    def _take_in(self) -> None:
        for _, mode, series, values in self._blocks:
            for (module, quantity), value in zip(series, values, strict=True):
                self._add(module, quantity, mode, value)
        self._blocks.clear()

    def _add(self, module: str, quantity: str, mode: Mode, value: float) -> None:
        key = module, quantity, mode
        if key not in self._series:
            self._series[key] = self._make()
        self._series[key].add(float(value))

    def close(self, epoch: int | None) -> list[EpochSummary]:
        """Ends an epoch, by default the one after the last; what comes next is the next one's."""
        self._take_in()
        number = self.next if epoch is None else epoch
        self.next = number + 1
        closed = [kept.summary(number, *key) for key, kept in self._series.items()]
        self._series.clear()
        return closed

    def clear(self) -> None:
        """Forgets the epoch under way."""
        self._blocks.clear()
        self._series.clear()


class _Kept(Protocol):
    def add(self, value: float) -> None: ...

    def summary(self, epoch: int, module: str, quantity: str, mode: Mode) -> EpochSummary: ...


class _Values:
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
class _Running:
    """Mean and spread by Welford's method, and the ends."""

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
