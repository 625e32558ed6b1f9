"""NaN that is no fault: a number that nothing defines, as a ratio of zero by zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from taiyi_fx.quantities.health import may_be_undefined


class Counted(NamedTuple):
    """A series, and how many of its numbers are not finite.

    Attributes:
        module: The module; empty for numbers of the model as a whole.
        mode: The mode.
        unit: The unit of the numbers.
        health: The name of their rule of health, as runs store it.
        nan: The number of NaNs.
        inf: The number of infinite numbers.
    """

    module: str
    mode: str
    unit: str
    health: str
    nan: int
    inf: int


def are_undefined(series: Sequence[Counted]) -> list[bool]:
    """For each series, True if its NaN are numbers that nothing defines.

    Only a ratio and the like may be undefined, and what says so of itself. Its NaN is a fault all
    the same where numbers that always have a value are not finite either, those of its module or of
    the model as a whole: then NaN is what went in.
    """
    faulty = {
        (one.module, one.mode)
        for one in series
        if (one.nan or (one.inf and one.module)) and not may_be_undefined(one.unit, one.health)
    }
    return [
        bool(one.nan)
        and may_be_undefined(one.unit, one.health)
        and faulty.isdisjoint([(one.module, one.mode), ("", one.mode)])
        for one in series
    ]
