"""The first step at which a series of one run is not that of another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.runs import Curve, Run, SeriesName


class Divergence(NamedTuple):
    """Where a series parts.

    Attributes:
        step: The first step that differs.
        one: The first run's value there, of a tensor a text; None where it has none.
        other: The second run's.
        differing: At how many values they differ.
        steps: How many values there are.
    """

    step: int
    one: float | str | None
    other: float | str | None
    differing: int
    steps: int


def divergences(
    one: Run, other: Run, names: Iterable[SeriesName], rtol: float, atol: float
) -> dict[SeriesName, Divergence]:
    """Where the series of two runs part, for those that do.

    Two values agree if ``|a - b| <= atol + rtol |b|``, both are NaN, or the same Inf. A value that
    only one run has is a difference.

    Args:
        one: A run.
        other: Another.
        names: Series that both have.
        rtol: Tolerance relative to the second run's value.
        atol: Absolute tolerance.
    """
    names = list(names)
    curves = one.curves(names), other.curves(names)
    found: dict[SeriesName, Divergence] = {}
    for name in names:
        ours, theirs = (run.get(name) for run in curves)
        if ours is not None and theirs is not None:
            parted = _of_numbers(ours, theirs, rtol, atol)
        else:
            parted = _of_tensors(
                _by_step(one, name, ours), _by_step(other, name, theirs), rtol, atol
            )
        if parted is not None:
            found[name] = parted
    return found


def _of_numbers(one: Curve, other: Curve, rtol: float, atol: float) -> Divergence | None:
    places = [_places(curve.steps) for curve in (one, other)]
    width = max(int(place.max(initial=0)) for place in places) + 1
    keys = [c.steps * width + place for c, place in zip((one, other), places, strict=True)]
    every = np.union1d(*keys)
    values, present = np.full((2, len(every)), np.nan), np.zeros((2, len(every)), np.bool_)
    for run, curve in enumerate((one, other)):
        at = np.searchsorted(every, keys[run])
        values[run, at], present[run, at] = curve.values, True
    agree = np.isclose(values[0], values[1], rtol, atol, equal_nan=True) & (
        present[0] == present[1]
    )
    if agree.all():
        return None
    first = int(agree.argmin())
    ours, theirs = (
        float(v[first]) if p[first] else None for v, p in zip(values, present, strict=True)
    )
    return Divergence(int(every[first]) // width, ours, theirs, int((~agree).sum()), len(every))


def _places(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many values of the same step came before each: a step may have several."""
    return np.arange(len(steps)) - np.searchsorted(steps, steps)


def _by_step(run: Run, name: SeriesName, curve: Curve | None) -> Mapping[int, NDArray[Any]]:
    if curve is None:
        return run.tensors(*name)
    return {int(step): np.asarray(value) for step, value in zip(*curve, strict=True)}


def _of_tensors(
    one: Mapping[int, NDArray[Any]], other: Mapping[int, NDArray[Any]], rtol: float, atol: float
) -> Divergence | None:
    steps = sorted({*one, *other})
    apart = [s for s in steps if not _agree(one.get(s), other.get(s), rtol, atol)]
    if not apart:
        return None
    first = apart[0]
    return Divergence(
        first, *_told(one.get(first), other.get(first), rtol, atol), len(apart), len(steps)
    )


def _agree(one: NDArray[Any] | None, other: NDArray[Any] | None, rtol: float, atol: float) -> bool:
    if one is None or other is None or one.shape != other.shape:
        return False
    return bool(np.isclose(one, other, rtol, atol, equal_nan=True).all())


def _told(
    one: NDArray[Any] | None, other: NDArray[Any] | None, rtol: float, atol: float
) -> tuple[str | None, str | None]:
    """Two tensors in words: their shapes, and the first element that differs."""
    if one is None or other is None or one.shape != other.shape:
        return _shape(one), _shape(other)
    agree = np.isclose(one, other, rtol, atol, equal_nan=True)
    at = np.unravel_index(int(agree.argmin()), agree.shape)
    index = f"[{', '.join(map(str, at))}]" if at else ""
    return f"{index} {one[at]}".strip(), f"{index} {other[at]}".strip()


def _shape(x: NDArray[Any] | None) -> str | None:
    return None if x is None else f"tensor {' x '.join(map(str, x.shape))}"
