"""One series of numbers."""

import numpy as np
import pytest

from taiyi_fx.findings import Watched
from taiyi_fx.findings.facts.watched import names_of
from tests.findings.given import evidence


def test_a_series_is_sorted_and_of_several_numbers_at_a_step_the_last_counts():
    steps, values = np.array([3, 1, 3, 2]), np.array([1.0, 2.0, 3.0, 4.0])
    made = Watched.made(("fc", "WeightNorm"), ("parameter", "", ""), steps, values)
    assert made.steps.tolist() == [1, 2, 3]
    assert made.values.tolist() == [2.0, 4.0, 3.0]


@pytest.mark.parametrize(
    ("quantity", "values", "bad"),
    [
        ("OutputRMS", [1.0, np.nan, np.inf], [False, True, True]),
        ("NonFinite", [0.0, 2.0, 0.0], [False, True, False]),
        ("InputCovCondition", [np.inf, np.nan, 1.0], [False, False, False]),
    ],
)
def test_a_number_that_is_no_ratio_has_to_be_finite(quantity, values, bad):
    (one,) = evidence({("fc", quantity): values}).series
    assert one.is_bad.tolist() == bad


def test_siblings_have_one_role():
    found = evidence({("h.0.fc", "WeightNorm"): 1, ("h.11.fc", "WeightNorm"): 1})
    assert {one.role for one in found.series} == {"h.*.fc"}


def test_the_later_half_has_the_number_in_the_middle():
    (one,) = evidence({("fc", "WeightNorm"): [1, 2, 3]}).series
    assert one.last_half.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "'m0'"),
        (2, "'m0' and 'm1'"),
        (3, "'m0', 'm1' and 'm2'"),
        (6, "'m0', 'm1', 'm2' and 3 more"),
    ],
)
def test_names_of_some_modules_in_a_sentence(count, text):
    series = evidence({(f"m{i}", "OutputRMS"): 1.0 for i in range(count)}).series
    assert names_of(series) == text
