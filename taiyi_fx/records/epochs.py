"""Statistics of each scalar series over an epoch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from taiyi_fx.passes.ir import Mode
from taiyi_fx.records.record import Block, Record
from taiyi_fx.reductions import Quantiles

_EXACT = 5_000_000
"""The largest number of values of an epoch that exact statistics keep."""

_WAITING = 250_000
"""Numbers that wait to be added up in streaming statistics."""

Statistics = Literal["exact", "streaming"]
"""Keep an epoch's values until its end, for quantiles; or add them up as they come."""


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
        lower_quartile: The 25 % quantile, linear between values; None when streaming, and in an
            epoch of more than five million numbers.
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
        statistics: ``"exact"`` keeps an epoch's values, unless there are more than five million;
            ``"streaming"`` five numbers a series.

    Attributes:
        next: The number of the epoch under way.
    """

    def __init__(self, statistics: Statistics) -> None:
        self._is_exact = statistics == "exact"
        self._state = _State({}, [], None, is_exact=self._is_exact)
        self._waiting = 0
        self.next = 0

    @property
    def has_left_quantiles(self) -> bool:
        """True if the epoch under way has more values than exact statistics keep."""
        return self._is_exact and not self._state.is_exact

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
        state = self._state
        if new and (state.blocks[-1] if state.blocks else state.last) is not new[-1]:
            state.blocks.extend(new)
            self._waiting += sum([len(block.values) for block in new])
        if state.blocks and self._waiting > (_EXACT if state.is_exact else _WAITING):
            found = _added_up(state.series, state.blocks, _Streaming())
            self._state = _State(found, [], state.blocks[-1], is_exact=False)
            self._waiting = 0

    def close(self, epoch: int | None) -> list[EpochSummary]:
        """Ends the epoch under way, by default the one after the last, and gives its summaries."""
        number = self.next if epoch is None else epoch
        series, blocks, _, is_exact = self._state
        found = _added_up(series, blocks, _Exact() if is_exact else _Streaming())
        closed = [kept.summary(number, *key) for key, kept in found.items()]
        self.clear()
        self.next = number + 1
        return closed

    def clear(self) -> None:
        """Drops the values of the epoch under way."""
        self._state = _State({}, [], None, is_exact=self._is_exact)
        self._waiting = 0


class _SeriesStatistics(Protocol):
    def with_values(self, x: NDArray[np.float64]) -> _SeriesStatistics: ...

    def summary(self, epoch: int, module: str, quantity: str, mode: Mode) -> EpochSummary: ...


_BySeries = Mapping[tuple[str, str, Mode], _SeriesStatistics]


class _State(NamedTuple):
    """The statistics of an epoch so far. It is replaced at once: an interrupt doubles nothing.

    Attributes:
        series: The statistics of all values but those of blocks.
        blocks: The blocks that are not added up yet; only ever added to.
        last: The block that came last before them.
        is_exact: False if values are not kept.
    """

    series: _BySeries
    blocks: list[Block]
    last: Block | None
    is_exact: bool


def _added_up(
    series: _BySeries, blocks: Iterable[Block], empty: _SeriesStatistics
) -> dict[tuple[str, str, Mode], _SeriesStatistics]:
    """The statistics of each series with the values of blocks."""
    found = dict(series)
    for group in _groups(blocks):
        for (mode, names), rows in group.items():
            columns = np.array(rows, np.float64).T
            for (module, quantity), column in zip(names, columns, strict=True):
                key = module, quantity, mode
                found[key] = found.get(key, empty).with_values(column)
    return found


def _groups(blocks: Iterable[Block]) -> Iterator[dict[tuple[Mode, Any], list[Sequence[float]]]]:
    """The values of blocks that have the same series, some numbers at a time."""
    group: dict[tuple[Mode, Any], list[Sequence[float]]] = {}
    size = 0
    for _, mode, series, values in blocks:
        group.setdefault((mode, series), []).append(values)
        size += len(values)
        if size >= _WAITING:
            yield group
            group, size = {}, 0
    yield group


class _Exact(NamedTuple):
    """All values, for exact quantiles."""

    parts: tuple[NDArray[np.float64], ...] = ()

    def with_values(self, x: NDArray[np.float64]) -> _Exact:
        return _Exact((*self.parts, x))

    def summary(self, epoch: int, module: str, quantity: str, mode: Mode) -> EpochSummary:
        x = torch.from_numpy(np.concatenate(self.parts))
        std = x.std().item() if len(x) > 1 else math.nan
        numbers = x.mean().item(), std, x.min().item(), x.max().item()
        quartiles = Quantiles(q=(0.25, 0.5, 0.75), exact=True).finish((x,)).values.tolist()
        return EpochSummary(epoch, module, quantity, mode, len(x), *numbers, *quartiles)


class _Streaming(NamedTuple):
    """Mean and spread, with the smallest and the largest value.

    Values come in groups, whose means and squared deviations are joined with those before by the
    formula of Chan, Golub and LeVeque.
    """

    numbers: int = 0
    mean: float = 0.0
    square_deviations: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def with_values(self, x: NDArray[np.float64]) -> _Streaming:
        with np.errstate(all="ignore"):  # NaN and Inf are values like others
            mean = float(x.mean())
            squares = float(((x - mean) ** 2).sum())
            low, high = (float(f(x)) for f in (np.min, np.max))
            ends = float(np.minimum(self.low, low)), float(np.maximum(self.high, high))
        count = self.numbers + len(x)
        delta = mean - self.mean
        if not math.isfinite(delta):
            return _Streaming(count, self.mean + mean, math.nan, *ends)
        joined = self.square_deviations + squares + delta**2 * self.numbers * len(x) / count
        return _Streaming(count, self.mean + delta * len(x) / count, joined, *ends)

    def summary(self, epoch: int, module: str, quantity: str, mode: Mode) -> EpochSummary:
        n, mean, squares, *ends = self
        std = math.sqrt(squares / (n - 1)) if n > 1 else math.nan
        return EpochSummary(epoch, module, quantity, mode, n, mean, std, *ends)
