"""The odd one out among modules of one role."""

import numpy as np
import pytest

from taiyi_fx.findings.siblings import outliers
from tests.findings.given import evidence


def layers(odd, quantity="WeightNorm", n=6):
    numbers = {(f"h.{i}", quantity): 1.0 + i / 10 for i in range(n)}
    return evidence({**numbers, ("h.3", quantity): odd})


@pytest.mark.parametrize(("odd", "times"), [(150.0, "116 times"), (1e-3, "of the median")])
def test_an_outlier_is_named_with_its_factor(odd, times):
    (found,) = outliers(layers(odd))
    assert (found.module, found.quantity, found.severity) == ("h.3", "WeightNorm", "warning")
    assert times in found.text


@pytest.mark.parametrize(
    "odd",
    [3.0, np.where(np.arange(40) < 10, 150.0, 1.0), np.where(np.arange(40) == 39, 150.0, 1.0)],
    ids=["a little", "in the beginning", "once"],
)
def test_what_is_near_or_does_not_last_is_none(odd):
    assert [*outliers(layers(odd))] == []


def test_few_siblings_have_no_outlier():
    numbers = {("h.0", "WeightNorm"): 1.0, ("h.1", "WeightNorm"): 1.0, ("h.2", "WeightNorm"): 500.0}
    assert [*outliers(evidence(numbers))] == []


def test_modules_with_other_quantities_are_no_siblings():
    numbers = {(f"h.{i}", "WeightNorm"): 1.0 for i in range(4)}
    numbers |= {("h.9", "WeightNorm"): 500.0, ("h.9", "OutputRMS"): 1.0}
    assert [*outliers(evidence(numbers))] == []


def test_weights_come_before_what_is_computed_with_them():
    numbers = {(f"h.{i}", "OutputRMS"): 1.0 for i in range(5)}
    numbers |= {(f"h.{i}", "WeightNorm"): 1.0 for i in range(5)}
    numbers |= {("h.2", "WeightNorm"): 900.0, ("h.4", "OutputRMS"): 900.0}
    assert [found.module for found in outliers(evidence(numbers))] == ["h.2", "h.4"]
