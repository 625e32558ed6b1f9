"""The check of the bench itself: does a fault show, in the loss or in what is recorded?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache

import torch

from benchmarks.faults.fault import Fault
from benchmarks.faults.tasks import build
from benchmarks.faults.training import run
from taiyi_fx import InstrumentedModule

Series = Mapping[int, float]
Records = dict[tuple[str, str], Series]

_FACTOR = 2.0
"""How far a number has to be off, as a multiple of what another seed does."""


@dataclass(frozen=True)
class Gap:
    """How far a faulty training is from the sound one of the same seed.

    Attributes:
        loss: Mean of the last ten losses, of the sound and of the faulty training.
        series: The culprits' series that is furthest off, its module and quantity; the loss where
            the sound training has none of the culprits.
        factor: By how much, at its worst step; infinite where only one of both has a value.
        by_chance: By how much that series is off between two sound trainings of other seeds.
    """

    loss: tuple[float, float]
    series: tuple[str, str]
    factor: float
    by_chance: float

    @property
    def is_visible(self) -> bool:
        """Whether there is anything that findings could be made of."""
        sound, faulty = self.loss
        if not math.isfinite(faulty) or abs(faulty - sound) > max(0.2 * sound, 0.3):
            return True
        return self.factor > _FACTOR * self.by_chance


def gap(fault: Fault) -> Gap:
    """Trains the sound and the faulty model, and compares."""
    training = fault.training()
    culprits = [culprit.format_map(training.names) for culprit in fault.culprits]
    sound, other = (_sound(fault.task, seed, training.steps) for seed in (0, 1))
    faulty = _scalars(run(training))
    theirs = [key for key in sound if any(fnmatchcase(_module(key), c) for c in culprits)]
    chosen = {
        key: (_factor(sound[key], faulty.get(key, {})), _factor(sound[key], other[key]))
        for key in theirs or [("", "loss")]
    }
    series = max(chosen, key=lambda key: _ratio(*chosen[key]))
    losses = _last(sound["", "loss"]), _last(faulty["", "loss"])
    return Gap(losses, series, *chosen[series])


def line(fault: Fault, found: Gap) -> str:
    """The gap as a line of a table."""
    sound, faulty = found.loss
    mark = "visible  " if found.is_visible else "INVISIBLE"
    module, quantity = found.series
    off = f"off by {found.factor:.3g}, by chance {found.by_chance:.3g}"
    return (
        f"{mark} {fault.label:52} loss {sound:6.3f} -> {faulty:<9.3g} "
        f"{module or '(model)'} {quantity}: {off}"
    )


@cache
def _sound(task: str, seed: int, steps: int) -> Records:
    return _scalars(run(replace(build(task, seed), steps=steps)))


def _module(key: tuple[str, str]) -> str:
    return key[0].partition("@")[0]


def _scalars(watched: InstrumentedModule) -> Records:
    """All series; of a quantity of several numbers, such as the load of experts, the largest."""
    return {
        (module, quantity): {step: float(torch.as_tensor(v).max()) for step, v in series.items()}
        for module, quantities in watched.monitor.get_output().items()
        for quantity, series in quantities.items()
    }


def _factor(one: Series, other: Series) -> float:
    """The largest factor between two series, of their means or maxima over ten steps."""
    if not one or not other:
        return math.inf
    starts = {10 * (step // 10) for step in one}
    return max(
        _off(of(one, start), of(other, start)) for start in starts for of in (_mean, _maximum)
    )


def _mean(series: Series, start: int) -> float | None:
    values = _ten(series, start)
    return sum(values) / len(values) if values else None


def _maximum(series: Series, start: int) -> float | None:
    return max(map(abs, _ten(series, start)), default=None)


def _ten(series: Series, start: int) -> list[float]:
    return [series[step] for step in range(start, start + 10) if step in series]


def _off(one: float | None, other: float | None) -> float:
    if one is None or other is None or not (math.isfinite(one) and math.isfinite(other)):
        return 1.0 if one == other else math.inf
    low, high = sorted((abs(one), abs(other)))
    if high < 1e-12:
        return 1.0
    return high / low if low else math.inf


def _ratio(factor: float, by_chance: float) -> float:
    return factor / by_chance if math.isfinite(by_chance) else 0.0


def _last(series: Series) -> float:
    values = [series[step] for step in sorted(series)[-10:]]
    return sum(values) / len(values)
