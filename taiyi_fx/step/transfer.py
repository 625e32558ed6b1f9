"""What became of a step's work: values on their way to the host, and then records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from taiyi_fx.passes.ir import Mode
from taiyi_fx.record import Block, Record, Series, Value
from taiyi_fx.step.host import Copies


class Pending(NamedTuple):
    """A value on its way to the host.

    Attributes:
        step: The step that it belongs to.
        module: The series' module, with its call.
        label: The quantity, as it was asked for.
        suffix: Which of its parts.
        mode: Of the forward.
        value: A number or a vector.
        present: A count on the device that is zero if there is no value.
        absence: Why there would be none.
    """

    step: int
    module: str
    label: str
    suffix: str
    mode: Mode
    value: Tensor
    present: Tensor | None = None
    absence: str = ""


class Column(NamedTuple):
    """Numbers of many series, computed together, on their way to the host.

    Attributes:
        step: The step that they belong to.
        mode: Of the forward.
        series: What each number is of.
        suffix: Which part of it.
        values: A vector.
        present: Counts on the device that are zero where there is no number.
        absence: Why there would be none.
    """

    step: int
    mode: Mode
    series: tuple[Series, ...]
    suffix: str
    values: Tensor
    present: Tensor | None
    absence: str


@dataclass
class Outcome:
    """What became of some work.

    Attributes:
        blocks: Numbers computed together.
        records: The other values, each with its series.
        failures: What went wrong, by series: to be told.
        reasons: Why else there is no value, by series.
    """

    blocks: list[Block] = field(default_factory=list)
    records: list[tuple[Series, Record]] = field(default_factory=list)
    failures: dict[Series, str] = field(default_factory=dict)
    reasons: dict[Series, str] = field(default_factory=dict)


class Transfer:
    """An outcome whose values are on their way to the host.

    Args:
        outcome: What became of the work but for its values.
        columns: Numbers computed together.
        pending: The other values.
        strict: Raise where one cannot be brought to the host.
    """

    def __init__(
        self,
        outcome: Outcome,
        columns: Sequence[Column] = (),
        pending: Sequence[Pending] = (),
        *,
        strict: bool = False,
    ) -> None:
        self._outcome = outcome
        self._columns = columns
        self._pending = list(pending)
        self._copies = self._sent(strict)

    @property
    def is_there(self) -> bool:
        """Whether all values have arrived."""
        return self._copies.are_there

    def pop_errors(self) -> dict[Series, str]:
        """What has gone wrong so far, by series; it is left out of the outcome."""
        failures, self._outcome.failures = self._outcome.failures, {}
        return failures

    def outcome(self) -> Outcome:
        """The outcome, with its values; waits for them."""
        arrived = iter(self._copies.tensors())
        for column in self._columns:
            self._take_column(column, arrived)
        for result in self._pending:
            self._take(result, arrived)
        self._columns, self._pending = (), []
        return self._outcome

    def _sent(self, strict: bool) -> Copies:
        try:
            return Copies(self._parts())
        except Exception:
            if strict:
                raise
        # Some cannot go: those are told.
        self._columns = [c for c in self._columns if self._can_go(c.values, c.series)]
        self._pending = [r for r in self._pending if self._can_go(r.value, [(r.module, r.label)])]
        return Copies(self._parts())

    def _parts(self) -> list[Tensor]:
        every = [*self._columns, *((r.value, r.present) for r in self._pending)]
        pairs = [(x.values, x.present) if isinstance(x, Column) else x for x in every]
        return [part for pair in pairs for part in pair if part is not None]

    def _can_go(self, values: Tensor, series: Iterable[Series]) -> bool:
        try:
            Copies([values]).tensors()
        except Exception as error:  # noqa: BLE001 - monitoring never ends a run
            text = f"{type(error).__name__} on the way to the host: {error}"
            self._outcome.failures.update(dict.fromkeys(series, text))
            return False
        return True

    def _take_column(self, column: Column, arrived: Iterator[Tensor]) -> None:
        numbers = next(arrived).tolist()
        series = column.series
        if column.suffix:
            series = tuple((module, f"{label}.{column.suffix}") for module, label in series)
        if column.present is not None:
            there = next(arrived).tolist()
            for count, name in zip(there, column.series, strict=True):
                if not count and column.mode == "train":
                    self._outcome.failures[name] = column.absence
            numbers = [x for x, count in zip(numbers, there, strict=True) if count]
            series = tuple(s for s, count in zip(series, there, strict=True) if count)
        self._outcome.blocks.append(Block(column.step, column.mode, series, numbers))

    def _take(self, result: Pending, arrived: Iterator[Tensor]) -> None:
        value = next(arrived)
        series = result.module, result.label
        if result.present is not None and next(arrived).item() == 0:
            if result.mode == "train":
                self._outcome.failures[series] = result.absence
            return
        label = result.label + (f".{result.suffix}" if result.suffix else "")
        record = Record(result.step, result.module, label, _on_host(value), result.mode)
        self._outcome.records.append((series, record))


def _on_host(x: Tensor) -> Value:
    """What a record holds of a tensor: a number, or a tensor of its own."""
    if x.ndim or x.is_complex():
        return x.clone()
    return x.item() if x.is_floating_point() else int(x.item())
