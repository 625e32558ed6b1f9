"""The numbers that rules look at while training goes on, of a bounded count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings import Evidence, Watched
from taiyi_fx.passes.ir import Mode
from taiyi_fx.quantities.health import from_stored, may_be_undefined, to_stored
from taiyi_fx.records.record import Block, Series
from taiyi_fx.watch.odd import Jumps, Spikes, is_not_finite
from taiyi_fx.watch.thinned import Thinned

Facts = tuple[str, str, str]
"""The direction of a series, its rule of health, as runs store it, and its unit."""


class Window:
    """The first, the latest, and some numbers between, of each series of a training.

    Args:
        describe: Gives the facts about a series.
    """

    def __init__(self, describe: Callable[[Series], Facts]) -> None:
        self._describe = describe
        self._groups: dict[tuple[Mode, tuple[Series, ...]], Group] = {}

    def add(self, block: Block) -> Group:
        """Adds numbers; returns all of their series, which tell if these are odd."""
        group = self._groups.get((block.mode, block.series))
        if group is None:
            group = Group(block.series, [*map(self._describe, block.series)])
            self._groups[block.mode, block.series] = group
        group.add(block.step, block.values)
        return group

    def evidence(self) -> Evidence:
        """All numbers in it."""
        found: dict[tuple[Mode, Series], list[Watched]] = {}
        for (mode, _), group in self._groups.items():
            for one in group.watched():
                found.setdefault((mode, (one.module, one.quantity)), []).append(one)
        return Evidence.of(_joined(parts)._replace(mode=mode) for (mode, _), parts in found.items())

    def clear(self) -> None:
        """Drops all numbers."""
        self._groups.clear()


class Group:
    """Series whose numbers come together, of one quantity.

    Attributes:
        direction: The kind of values that they read.
        is_bad: True if one of the numbers that came last is NaN or Inf, or counts some, where that
            is a fault.
        was_bad: The same of those before.
        is_spike: True if the number that came last is a spike of the loss.
        is_jump: True if one that came last is far above all before.
    """

    def __init__(self, series: tuple[Series, ...], facts: Sequence[Facts]) -> None:
        self._series, self._facts = series, facts
        self._rows: Thinned[tuple[int, int | None, Sequence[float]]] = Thinned()
        self._step: int | None = None
        self.direction, stored, unit = facts[0]
        health = from_stored(stored)
        self._may_be_bad = not may_be_undefined(unit, stored)
        self._may_jump = not may_be_undefined(unit)
        self._is_step_size = health == "step_size"
        self._is_count = health == "counts_non_finite"
        is_loss = not self.direction and "loss" in series[0][1].lower()
        self._spikes = Spikes() if is_loss else None
        self._jumps = Jumps()
        self.is_bad = self.was_bad = self.is_spike = self.is_jump = False

    def add(self, step: int, values: Sequence[float]) -> None:
        """Adds a number of each."""
        gap = None if self._step is None else max(step - self._step, 1)
        self._rows.add((step, gap, values))
        self._step = step
        self.was_bad = self.is_bad
        self.is_bad = self._may_be_bad and is_not_finite(values, is_count=self._is_count)
        self.is_jump = self._may_jump and self._jumps.is_one(max(values))
        if self._spikes is not None:
            self.is_spike = self._spikes.is_one(values[0])

    def watched(self) -> Iterator[Watched]:
        """Each of them, as rules see it."""
        steps = np.array([step for step, _, _ in self._rows], np.int64)
        table = np.array([values for _, _, values in self._rows], np.float64)
        if self._is_step_size:
            table /= self._gaps(steps)[:, None]
        for name, facts, values in zip(self._series, self._facts, table.T, strict=True):
            yield _made(name, facts, steps, values)

    def _gaps(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """The steps that each number is for: those since the one before, which may be left out."""
        first = int(steps[1] - steps[0]) if len(steps) > 1 else 1
        return np.array([gap or max(first, 1) for _, gap, _ in self._rows], np.int64)


def _made(
    name: Series, facts: Facts, steps: NDArray[np.int64], values: NDArray[np.float64]
) -> Watched:
    """A series whose numbers, if they are sizes of steps, are of one step each already."""
    direction, stored, unit = facts
    made = Watched.made(name, (direction, "", unit), steps, values)
    return made._replace(
        health=from_stored(stored), may_be_undefined=may_be_undefined(unit, stored)
    )


def _joined(parts: list[Watched]) -> Watched:
    """One series of those that came with different others."""
    first, *rest = parts
    if not rest:
        return first
    name = first.module, first.quantity
    health = to_stored(first.health, first.unit, undefined=first.may_be_undefined)
    facts = first.direction, health, first.unit
    steps = np.concatenate([part.steps for part in parts])
    return _made(name, facts, steps, np.concatenate([part.values for part in parts]))
