"""The first step at which a series differs between two runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.runs import Curve, Run, SeriesName, Span

_FIRST_ROUNDED = 2.0**53
"""The first float64 that may stand for several integers."""


class Divergence(NamedTuple):
    """The place where a series begins to differ.

    Attributes:
        step: The first step at which both runs have a value and these differ; if there is none, the
            first at which one run alone has a value.
        one: The first run's value there, of a tensor a text; None where it has none.
        other: The second run's.
        differing: At how many values they differ; of a series with numbers and tensors, those of
            the kind that parts first.
        steps: The number of values of that kind.
    """

    step: int
    one: float | str | None
    other: float | str | None
    differing: int
    steps: int

    @property
    def is_of_values(self) -> bool:
        """True if both runs have a value there."""
        return self.one is not None and self.other is not None

    @property
    def order(self) -> tuple[bool, int]:
        """The sort key: differences of values first, by their step."""
        return not self.is_of_values, self.step


def divergences(
    one: Run,
    other: Run,
    names: Mapping[SeriesName, SeriesName],
    rtol: float,
    atol: float,
) -> dict[SeriesName, Divergence]:
    """The first difference of each series that differs between two runs.

    Two values agree if ``|a - b| <= atol + rtol |b|``, both are NaN, or the same Inf. Without
    tolerances they agree if they are equal, integers of any size included. A value that only one
    run has is a difference.

    Args:
        one: A run.
        other: Another.
        names: Series that both have: those of the first, each with its like in the other.
        rtol: Tolerance relative to the second run's value.
        atol: Absolute tolerance.
    """
    is_exact = not (rtol or atol)
    of_runs = [
        (run, run.curves(of), run.spans()) for run, of in ((one, names), (other, names.values()))
    ]
    found: dict[SeriesName, Divergence] = {}
    for name, like in names.items():
        ours, theirs = (
            _held(run, own, curves.get(own), spans[own], is_exact)
            for own, (run, curves, spans) in zip((name, like), of_runs, strict=True)
        )
        parted = _parted(ours, theirs, rtol, atol)
        if parted is not None:
            found[name] = parted
    return found


class _Held(NamedTuple):
    """The values of a series: numbers, tensors, or both after a resume with another config."""

    numbers: Curve | None
    tensors: Mapping[int, NDArray[Any]]

    def by_step(self) -> dict[int, NDArray[Any]]:
        """All values as tensors; a step that has both gives its number, which no tensor equals."""
        numbers = zip(*self.numbers, strict=True) if self.numbers else ()
        return {**self.tensors, **{int(step): np.asarray(value) for step, value in numbers}}


def _held(run: Run, name: SeriesName, curve: Curve | None, span: Span, is_exact: bool) -> _Held:
    if curve is None:
        return _Held(None, run.tensors(*name))
    # Looked for only where the curve is not all there is: it takes a query for each series.
    is_all = span == (len(curve.steps), int(curve.steps[0]), int(curve.steps[-1]))
    tensors = {} if is_all else _tensors(run, name)
    is_rounded = is_exact and bool((np.abs(curve.values) >= _FIRST_ROUNDED).any())
    return _Held(run.series(*name) if is_rounded else curve, tensors)


def _tensors(run: Run, name: SeriesName) -> dict[int, NDArray[Any]]:
    try:
        return run.tensors(*name)
    except LookupError:  # numbers only, to which a run that goes on has added some
        return {}


def _parted(one: _Held, other: _Held, rtol: float, atol: float) -> Divergence | None:
    if one.numbers is None or other.numbers is None:
        return _of_tensors(one.by_step(), other.by_step(), rtol, atol)
    found = (
        _of_numbers(one.numbers, other.numbers, rtol, atol),
        _of_tensors(one.tensors, other.tensors, rtol, atol),
    )
    return min((f for f in found if f is not None), key=lambda f: f.order, default=None)


def _of_numbers(one: Curve, other: Curve, rtol: float, atol: float) -> Divergence | None:
    steps = np.union1d(one.steps, other.steps)
    places = [_places(curve.steps) for curve in (one, other)]
    width = max(int(place.max(initial=0)) for place in places) + 1
    keys = [
        np.searchsorted(steps, curve.steps) * width + place
        for curve, place in zip((one, other), places, strict=True)
    ]
    every = np.union1d(*keys)
    values = np.zeros((2, len(every)), np.result_type(one.values, other.values))
    present = np.zeros((2, len(every)), np.bool_)
    for run, curve in enumerate((one, other)):
        at = np.searchsorted(every, keys[run])
        values[run, at], present[run, at] = curve.values, True
    is_both = present[0] & present[1]
    differ = ~(is_both & _close(values[0], values[1], rtol, atol))
    if not differ.any():
        return None
    of_values = differ & is_both
    first = int((of_values if of_values.any() else differ).argmax())
    ours, theirs = (
        value if there else None
        for value, there in zip(values[:, first].tolist(), present[:, first], strict=True)
    )
    step = int(steps[every[first] // width])
    return Divergence(step, ours, theirs, int(differ.sum()), len(every))


def _places(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each value, the number of earlier values of the same step."""
    return np.arange(len(steps)) - np.searchsorted(steps, steps)


def _close(one: NDArray[Any], other: NDArray[Any], rtol: float, atol: float) -> NDArray[np.bool_]:
    """A mask of elements that agree; `numpy.isclose` alone would take integers as float64."""
    if rtol or atol:
        return np.isclose(one, other, rtol, atol, equal_nan=True)
    both_nan = (one != one) & (other != other)  # isnan takes no Python integers
    return ((one == other) | both_nan).astype(np.bool_)


def _of_tensors(
    one: Mapping[int, NDArray[Any]], other: Mapping[int, NDArray[Any]], rtol: float, atol: float
) -> Divergence | None:
    steps = sorted({*one, *other})
    apart = [s for s in steps if not _agree(one.get(s), other.get(s), rtol, atol)]
    if not apart:
        return None
    first = next((s for s in apart if s in one and s in other), apart[0])
    return Divergence(
        first, *_as_texts(one.get(first), other.get(first), rtol, atol), len(apart), len(steps)
    )


def _agree(one: NDArray[Any] | None, other: NDArray[Any] | None, rtol: float, atol: float) -> bool:
    if one is None or other is None or one.shape != other.shape:
        return False
    return bool(_close(one, other, rtol, atol).all())


def _as_texts(
    one: NDArray[Any] | None, other: NDArray[Any] | None, rtol: float, atol: float
) -> tuple[str | None, str | None]:
    """Two tensors in words: their shapes, and the first element that differs."""
    if one is None or other is None or one.shape != other.shape:
        return _shape(one), _shape(other)
    agree = _close(one, other, rtol, atol)
    at = np.unravel_index(int(agree.argmin()), agree.shape)
    index = f"[{', '.join(map(str, at))}]" if at else ""
    return f"{index} {one[at]}".strip(), f"{index} {other[at]}".strip()


def _shape(x: NDArray[Any] | None) -> str | None:
    return None if x is None else f"tensor {' x '.join(map(str, x.shape))}"
