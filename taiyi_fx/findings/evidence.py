"""The numbers that rules look at: all scalar series of a run, module by module."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # a run is read without torch, which takes a second to import
    from taiyi_fx.records.record import Records, Series


Steps: TypeAlias = "NDArray[np.int64]"
Values: TypeAlias = "NDArray[np.float64]"


class Watched(NamedTuple):
    """One series of numbers.

    Attributes:
        module: The module, with its call.
        quantity: The quantity's name.
        direction: ``"forward"``, ``"backward"``, ``"parameter"``, or ``""`` for logged numbers.
        health: The quantity's rule of health.
        unit: The unit of its numbers.
        steps: Its steps, ascending.
        values: Its numbers, float64.
    """

    module: str
    quantity: str
    direction: str
    health: str
    unit: str
    steps: Steps
    values: Values

    @staticmethod
    def made(
        name: tuple[str, str], facts: tuple[str, str, str], steps: Steps, values: Values
    ) -> Watched:
        """A series, sorted by step; of several numbers at one step the last.

        Sizes of steps since the previous due one become sizes of one step, as schedules differ.
        """
        order = np.argsort(steps, kind="stable")
        steps, values = steps[order], values[order]
        is_last = np.append(np.diff(steps) > 0, True)[: len(steps)]
        steps, values = steps[is_last], values[is_last]
        if facts[1] == "step_size" and len(steps) > 1:
            gaps = np.diff(steps)
            values = values / np.append(gaps[:1], gaps)
        return Watched(*name, *facts, steps, values)

    @property
    def is_bad(self) -> NDArray[np.bool_]:
        """A mask of the numbers that are NaN or Inf, or count some, where that is a fault.

        A ratio may be infinite, as a condition number is, or without a value, of zero by zero.
        """
        if self.unit not in ("", "elements", "share"):
            return np.zeros(len(self.values), bool)
        bad = ~np.isfinite(self.values)
        return bad | (self.values > 0) if self.health == "counts_non_finite" else bad

    def at(self, chosen: NDArray[np.bool_]) -> Watched:
        """The chosen numbers."""
        return self._replace(steps=self.steps[chosen], values=self.values[chosen])

    def before(self, step: int) -> Watched:
        """The numbers before a step."""
        n = int(np.searchsorted(self.steps, step))
        return self._replace(steps=self.steps[:n], values=self.values[:n])

    @property
    def role(self) -> str:
        """The module's name without its numbers: that of its siblings, too."""
        return re.sub(r"\d+", "*", self.module)


@dataclass(frozen=True)
class Evidence:
    """All scalar series of a training, in the order of the model's modules.

    Attributes:
        series: The series of forwards in training, and of what was logged.
    """

    series: tuple[Watched, ...]

    @staticmethod
    def of(series: Iterable[Watched]) -> Evidence:
        """The evidence in some series; empty ones are left out."""
        return Evidence(tuple(one for one in series if len(one.steps)))

    def without_gradients(self, steps: Collection[int]) -> Evidence:
        """All numbers but those of gradients at some steps."""
        return Evidence.of(
            one.at(~np.isin(one.steps, [*steps])) if one.direction == "backward" else one
            for one in self.series
        )

    def before(self, step: int) -> Evidence:
        """The numbers before a step."""
        return Evidence.of(one.before(step) for one in self.series)

    @staticmethod
    def of_records(
        records: Records, describe: Callable[[Series], tuple[str, str, str]]
    ) -> Evidence:
        """The evidence in what a monitor recorded of forwards in training.

        Args:
            records: The records.
            describe: Takes a series to its direction, its rule of health and its unit.
        """
        found: dict[Series, tuple[list[int], list[float]]] = {}
        for block in records.select(mode="train").blocks():
            for name, value in zip(block.series, block.values, strict=True):
                steps, values = found.setdefault(name, ([], []))
                steps.append(block.step)
                values.append(float(value))
        return Evidence.of(
            Watched.made(name, describe(name), np.array(steps), np.array(values))
            for name, (steps, values) in found.items()
        )

    @functools.cached_property
    def modules(self) -> dict[str, int]:
        """The place of each module in the order of the model's."""
        return {name: i for i, name in enumerate(dict.fromkeys(s.module for s in self.series))}

    @functools.cached_property
    def kinds(self) -> dict[str, frozenset[str]]:
        """The quantities of each module: those of one class have the same."""
        found: dict[str, set[str]] = {}
        for one in self.series:
            found.setdefault(one.module, set()).add(one.quantity)
        return {module: frozenset(quantities) for module, quantities in found.items()}

    def of_quantity(self, *quantities: str) -> Iterator[Watched]:
        """The series of some quantities."""
        return (one for one in self.series if one.quantity in quantities)

    @property
    def weights(self) -> list[Watched]:
        """The norms of weights, one for each module."""
        return self._one_of_each("WeightNorm", "ParameterNorm.weight")

    @property
    def weight_gradients(self) -> list[Watched]:
        """The norms of weights' gradients, one for each module."""
        return self._one_of_each("WeightGradNorm", "ParameterGradNorm.weight")

    def _one_of_each(self, *quantities: str) -> list[Watched]:
        found: dict[str, Watched] = {}
        for one in self.of_quantity(*quantities):
            found.setdefault(one.module, one)
        return [*found.values()]

    @property
    def losses(self) -> list[Watched]:
        """Numbers of the user's own that are called a loss."""
        return [s for s in self.series if not s.direction and "loss" in s.quantity.lower()]

    @property
    def last_step(self) -> int:
        """The latest step."""
        return max((int(s.steps[-1]) for s in self.series), default=0)
