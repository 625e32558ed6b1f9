"""NaN that is no fault."""

import pytest

from taiyi_fx.findings.facts.undefined import Counted, are_undefined
from taiyi_fx.quantities.health import to_stored


def series(module="fc", unit="", nan=0, inf=0, mode="train", health=""):
    return Counted(module, mode, unit, health, nan, inf)


RATIO = series(unit="cosine", nan=3)


@pytest.mark.parametrize(
    ("others", "undefined"),
    [
        ([], True),
        ([series()], True),
        ([series("other", nan=1)], True),
        ([series(mode="eval", nan=1)], True),
        ([series("", inf=1)], True),  # a scaler's first steps overflow
        ([series(nan=1)], False),
        ([series(inf=1)], False),
        ([series("", nan=1)], False),
        ([series(unit="elements", nan=1)], False),
    ],
)
def test_a_ratio_is_undefined_where_what_always_has_a_value_is_finite(others, undefined):
    assert are_undefined([RATIO, *others])[0] is undefined


def test_what_a_quantity_declares_to_be_undefined_at_times_is_so():
    """As the deviation of a single element."""
    declared = series(health=to_stored("lasting", "", undefined=True), nan=3)
    assert are_undefined([declared, series("b")]) == [True, False]
    assert are_undefined([declared, series(nan=1)]) == [False, False]


def test_a_number_that_is_defined_is_not_undefined():
    every = [series(unit="cosine"), series("b", nan=1), series("c", "share", nan=1)]
    assert are_undefined(every) == [False, False, False]
