"""The outcome of a step's work: values on their way to the host, then records."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import Mode
from taiyi_fx.records.record import Block, Record, Series
from taiyi_fx.step.host import Copies


class Column(NamedTuple):
    """Values of one or more series, on their way to the host.

    Attributes:
        step: The step that they belong to.
        mode: The mode of the forward.
        of: The series that each value belongs to.
        series: The same with the part's name, as records have it.
        values: Along the first axis; a vector holds a number of each.
        is_of_next: True if it belongs to the step that is tracked next, whose number was not named.
        has_value: Not 0 for those that are values, along the same axis and in the type of these, so
            that one copy takes both; None if all are.
        otherwise: The reason why others are none.
    """

    step: int
    mode: Mode
    of: tuple[Series, ...]
    series: tuple[Series, ...]
    values: Tensor
    is_of_next: bool = False
    has_value: Tensor | None = None
    otherwise: str = ""


_values_of = operator.attrgetter("values")
_mask_of = operator.attrgetter("has_value")
_is_none = functools.partial(operator.is_, None)


def parts_of(of: tuple[Series, ...], suffix: str) -> tuple[Series, ...]:
    """The names of a part of some series: the same object each time, which records share."""
    return _parts_of(of, suffix) if suffix else of


@functools.lru_cache(maxsize=4096)
def _parts_of(of: tuple[Series, ...], suffix: str) -> tuple[Series, ...]:
    return tuple([(module, f"{label}.{suffix}") for module, label in of])


@dataclass
class Outcome:
    """The outcome of some work.

    Attributes:
        blocks: Numbers, each block with the series that they are of, without their suffix.
        records: The other values, likewise.
        failures: The errors to warn of, by series.
        reasons: The reasons for values that are missing as they should be, by series.
    """

    blocks: list[tuple[tuple[Series, ...], Block]] = field(default_factory=list)
    records: list[tuple[Series, Record]] = field(default_factory=list)
    failures: dict[Series, str] = field(default_factory=dict)
    reasons: dict[Series, str] = field(default_factory=dict)

    def series(self) -> set[Series]:
        """The series that have values."""
        of_blocks = (series for of, _ in self.blocks for series in of)
        return {*of_blocks, *(series for series, _ in self.records)}


class Transfer:
    """An outcome whose values are being copied to the host.

    Args:
        outcome: The outcome, without its values.
        columns: The values.
        strict: Raise if a value cannot be copied to the host.
    """

    def __init__(
        self, outcome: Outcome, columns: Sequence[Column] = (), *, strict: bool = False
    ) -> None:
        self._columns = columns
        self._failures: dict[Series, str] = {}
        self._copies = self._sent(strict) if columns else None
        outcome.failures.update(self._failures)
        self._outcome = outcome
        self._whole: Outcome | None = None

    @property
    def is_there(self) -> bool:
        """True if all values have arrived."""
        return self._copies is None or self._copies.are_there

    def pop_errors(self) -> dict[Series, str]:
        """The failures so far, by series; the outcome will not repeat them."""
        failures, self._outcome.failures = self._outcome.failures, {}
        return failures

    def outcome(self) -> Outcome:
        """The outcome, with its values; waits for them."""
        if self._whole is None:
            self._whole = self._with_values()  # assigned at once: an interrupt doubles none of them
        self._columns = ()
        return self._whole

    def _sent(self, strict: bool) -> Copies:
        masks = itertools.filterfalse(_is_none, map(_mask_of, self._columns))
        try:
            return Copies([*map(_values_of, self._columns), *masks])
        except Exception:
            if strict:
                raise
        # Some cannot be copied: those are reported.
        self._columns = [column for column in self._columns if self._can_go(column)]
        return self._sent(strict=True)

    def _can_go(self, column: Column) -> bool:
        try:
            Copies([column.values]).tensors()
        except Exception as error:  # noqa: BLE001 - monitoring never ends a run
            text = f"{type(error).__name__} on the way to the host: {error}"
            self._failures.update(dict.fromkeys(column.of, text))
            return False
        return True

    def _with_values(self) -> Outcome:
        if self._copies is None:
            return self._outcome
        blocks, records = [*self._outcome.blocks], [*self._outcome.records]
        reasons, tensors = {**self._outcome.reasons}, self._copies.tensors()
        masks = iter(tensors[len(self._columns) :])
        for column, values in zip(self._columns, tensors, strict=False):  # masks come behind them
            if column.has_value is not None:
                column, values = _those_with_value(column, values, next(masks).bool(), reasons)
            step, mode, of, series, *_ = column
            if not of:
                continue
            if values.ndim == 1 and not values.is_complex():
                numbers = (values.long() if values.dtype is torch.bool else values).tolist()
                blocks.append((of, Block(step, mode, series, numbers)))
                continue
            for own, (module, quantity), value in zip(of, series, values, strict=True):
                records.append((own, Record(step, module, quantity, value.clone(), mode)))
        return Outcome(blocks, records, self._outcome.failures, reasons)


def _those_with_value(
    column: Column, values: Tensor, has_value: Tensor, reasons: dict[Series, str]
) -> tuple[Column, Tensor]:
    """A column and its values without what is no value, the reasons of which are added."""
    chosen = has_value.tolist()
    if all(chosen):
        return column, values
    of, series = (tuple(itertools.compress(x, chosen)) for x in (column.of, column.series))
    missing = itertools.compress(column.of, [not is_there for is_there in chosen])
    reasons.update(dict.fromkeys(missing, column.otherwise))
    return column._replace(of=of, series=series), values[has_value]
