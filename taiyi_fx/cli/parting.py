"""The places at which two runs part: where bits do, and where numbers do by more than rounding."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from taiyi_fx.cli.divergence import divergences
from taiyi_fx.outline.order import places_of_outputs
from taiyi_fx.pictures.report.aligned import Modules

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from taiyi_fx.cli.like import Named
    from taiyi_fx.runs import Curve, Run, SeriesName

_HALF = re.compile(r"(\w*Fingerprint(?:\..+)?)\.(?:high|low)")
_PHASES = {"parameter": 0, "": 1, "forward": 1, "backward": 2}


class Parted(NamedTuple):
    """A series of a run that parts from its like in another.

    Attributes:
        step: The first step at which it does.
        name: The series; of a fingerprint without its half.
        one: The first run's number there; None for bits.
        other: The other's.
        allowed: How far apart they may be.
    """

    step: int
    name: SeriesName
    one: float | None = None
    other: float | None = None
    allowed: float = 0.0


def fingerprint_of(name: SeriesName) -> SeriesName | None:
    """The fingerprint that a series is a half of, or None."""
    found = _HALF.fullmatch(name.quantity)
    return name._replace(quantity=found[1]) if found else None


def without_shared_steps(one: Run, other: Run, names: Named) -> list[SeriesName]:
    """The series of numbers that two runs have, and at no step both.

    Args:
        one: A run.
        other: Another.
        names: Series that both have.
    """
    ours, theirs = one.curves(names), other.curves(names.values())
    pairs = [(name, ours[name], theirs[names[name]]) for name in names if name in ours]
    return [name for name, a, b in pairs if not np.intersect1d(a.steps, b.steps).size]


def parted_bits(one: Run, other: Run, names: Named) -> list[Parted]:
    """The fingerprints that part, by step, and at a step in the order of the computation.

    Args:
        one: A run.
        other: Another.
        names: Halves of fingerprints that both have.
    """
    first: dict[SeriesName, int] = {}
    for half, found in divergences(one, other, names, 0.0, 0.0).items():
        whole = fingerprint_of(half)
        if whole is not None and found.is_of_values:
            first[whole] = min(found.step, first.get(whole, found.step))
    return _in_order(one, [Parted(step, name) for name, step in first.items()])


def parted_numbers(one: Run, other: Run, names: Named, rtol: float) -> list[Parted]:
    """The series whose numbers part by more than rounding, in the same order.

    Rounding makes two trainings part a little more at each step, so that ``rtol`` is allowed at the
    first step that both have, twice as much at the next, and so on: relative to the number, or to
    the series' median size where that is more.

    Args:
        one: A run.
        other: Another.
        names: Series that both have; those of tensors are left out.
        rtol: The relative difference that is allowed at the first step.
    """
    ours, theirs = one.curves(names), other.curves(names.values())
    shared = [name for name, like in names.items() if name in ours and like in theirs]
    start = min((int(ours[name].steps[0]) for name in shared), default=0)
    found = (_parted(name, ours[name], theirs[names[name]], rtol, start) for name in shared)
    return _in_order(one, [parted for parted in found if parted])


def _parted(name: SeriesName, one: Curve, other: Curve, rtol: float, start: int) -> Parted | None:
    steps, at, like = np.intersect1d(one.steps, other.steps, return_indices=True)
    a, b = (np.asarray(of.values, np.float64)[i] for of, i in ((one, at), (other, like)))
    allowed = rtol * (1 + np.maximum(steps - start, 0)) * _sizes(a, b)
    with np.errstate(invalid="ignore"):  # Inf beside Inf
        is_near = (np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b))
    if is_near.all():
        return None
    i = int(is_near.argmin())
    return Parted(int(steps[i]), name, float(a[i]), float(b[i]), float(allowed[i]))


def _sizes(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    sizes = np.maximum(np.abs(a), np.abs(b))
    sizes = np.where(np.isfinite(sizes), sizes, 0.0)  # nothing is near to Inf but itself
    return np.maximum(sizes, np.median(sizes)) if len(sizes) else sizes


def _in_order(run: Run, found: list[Parted]) -> list[Parted]:
    places = dict(_places(run))
    return sorted(found, key=lambda parted: (parted.step, *places.get(parted.name, (3, 0, 0))))


def _places(run: Run) -> Iterator[tuple[SeriesName, tuple[int, int, int]]]:
    """When in a step each series is computed: its phase, and its place there."""
    series = run.source.series()
    modules = Modules.of((s.series_name.module for s in series), run.outline).names
    order = places_of_outputs(name.partition("@")[0] for name in modules)
    for s in series:
        name = s.series_name
        place, depth = order.get(name.module.partition("@")[0], (len(order), 0))
        phase = _PHASES.get(s.direction, 1)
        if phase == 2:  # gradients come back from the end
            place, depth = -place, -depth
        yield fingerprint_of(name) or name, (phase, place, depth)
