"""Values that overflow as weights grew are told from those that a function makes."""

import numpy as np
import pytest

from taiyi_fx.findings.facts.overflow import growth_of_weights, overflows
from tests.findings.given import evidence

NAN = np.nan


def grown(times):
    numbers = {(name, "WeightNorm"): [2.0, 2.0 * times, 2.0 * times] for name in "abc"}
    return evidence(numbers | {("act", "OutputRMS"): [1, 1, NAN]})


@pytest.mark.parametrize(
    ("times", "module", "expected"), [(5, "b", True), (1.5, "b", False), (5, "act", False)]
)
def test_weights_that_have_grown_make_values_overflow(times, module, expected):
    assert growth_of_weights(grown(times), 2) == times
    assert overflows(grown(times), module, 2) == expected


def test_weights_that_began_at_zero_or_are_not_known_tell_nothing():
    assert growth_of_weights(evidence({("a", "WeightNorm"): [0, 1, 2]}), 2) == 1
    assert growth_of_weights(evidence({("a", "OutputRMS"): [1, 1, 2]}), 2) == 1


def test_weights_of_later_steps_and_such_that_are_not_finite_do_not_count():
    of_one = evidence({("a", "WeightNorm"): [1, 2, 9]})
    assert growth_of_weights(of_one, 1) == 2
    assert growth_of_weights(evidence({("a", "WeightNorm"): [1, 2, NAN]}), 2) == 2
