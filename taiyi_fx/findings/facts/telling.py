"""The series of a run to look at first: those that went far, or are far from their siblings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Values, Watched, grouped
from taiyi_fx.quantities.health import RULES, USUAL, is_of_errors
from taiyi_fx.records.record import Series

_ENDS = 5
"""The most numbers at either end of a series of which the median is taken."""
_FEWEST = 4
"""The fewest siblings among which one can be apart."""
_MOST = 6.0
"""The most powers of ten: what comes to exactly zero has gone as far."""
_LEAST = 0.3
"""The least change that is told of: a factor of two."""
_IN_A_RANGE = ("share", "cosine")
_WIDTH = 2.0
"""Powers of ten for which a whole share stands: half of one tells as much as a factor of ten."""
_EXPECTED = ("loss", "LossSpike", "LearningRate", "SecondMoment")
"""Quantities that move in every training: they tell nothing by that."""
_HASH = "Fingerprint"
"""The end of the names of quantities whose numbers are no sizes: one bit makes others of them."""


class Telling(NamedTuple):
    """How much the numbers of a series tell, in powers of ten.

    Attributes:
        first: The median of its first numbers, from the first on that is not zero.
        last: The median of its last numbers.
        change: The powers of ten that it went, from these first ones to these last ones.
        apart: The powers of ten that it lies from its siblings in the end.
    """

    first: float
    last: float
    change: float = 0.0
    apart: float = 0.0

    @property
    def score(self) -> float:
        """How much it tells: a change all of it, a distance half, as siblings may differ."""
        return max(self.change, self.apart / 2)


def telling(series: Sequence[Watched]) -> dict[Series, Telling]:
    """How much each of some series tells, by its module and quantity, in their order.

    Sizes count by their ratio, and shares and cosines by their difference, of which 0.5 is a power
    of ten; a fall counts half where training makes one. Numbers of both signs, counts, hashes, and
    what changes in every training tell nothing.
    """
    places = grouped(range(len(series)), lambda i: (series[i].quantity, series[i].role))
    found = [_of(one) for one in series]
    for siblings in places.values():
        ends = [_size(series[i], found[i].last) for i in siblings]
        if len(siblings) < _FEWEST or not np.isfinite(ends).all():
            continue
        middle = median(ends)
        for i, end in zip(siblings, ends, strict=True):
            if _tells(series[i]):
                found[i] = found[i]._replace(apart=min(abs(end - middle), _MOST))
    return {series[i][:2]: how for i, how in enumerate(found)}


def changed_most(found: Mapping[Series, Telling], most: int) -> list[Series]:
    """The series that changed most, at most so many, each of another module and quantity.

    None that changed by less than a factor of two.
    """
    ranked = sorted(found, key=lambda one: -found[one].change)
    chosen: list[Series] = []
    for one in ranked:
        is_another = all(one[0] != other[0] and one[1] != other[1] for other in chosen)
        if is_another and found[one].change >= _LEAST and len(chosen) < most:
            chosen.append(one)
    return chosen


def _of(one: Watched) -> Telling:
    numbers = one.values[np.isfinite(one.values)]
    if not len(numbers):
        return Telling(np.nan, np.nan)
    begun = numbers[np.argmax(numbers != 0) :]  # zeros in the beginning are how it was made
    n = max(1, min(_ENDS, len(begun) // 2))
    first, last = median(begun[:n]), median(begun[-n:])
    is_lasting = RULES.get(one.health, USUAL).lasts
    if not _tells(one) or (is_lasting and numbers[0] == 0):
        return Telling(first, last)  # what was made of zeros, as a bias, has no size to grow from
    change = _size(one, last) - _size(one, first)
    if change < 0 and not is_lasting:
        change /= 2  # as training goes on, gradients and steps become smaller
    return Telling(first, last, min(abs(change), _MOST))


def _size(one: Watched, value: float) -> float:
    """A place on a scale of which 1 is a power of ten."""
    if one.unit in _IN_A_RANGE:
        return value * _WIDTH
    return float(np.log10(abs(value))) if value else -_MOST * 2


def _tells(one: Watched) -> bool:
    is_told = one.quantity not in _EXPECTED and not is_of_errors(one.quantity)
    is_size = one.unit != "elements" and not one.quantity.partition(".")[0].endswith(_HASH)
    return is_told and is_size and (one.unit in _IN_A_RANGE or not _has_both_signs(one.values))


def _has_both_signs(values: Values) -> bool:
    return bool((values > 0).any() and (values < 0).any())
