"""The site where NaN or Inf arose, not those that it reached."""

import numpy as np
import pytest

from taiyi_fx.findings.non_finite import first_step, non_finite, overflow, skipped_steps
from tests.findings.given import evidence

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("numbers", "site"),
    [
        # a weight, then all that is computed with it
        (
            {
                ("a", "OutputRMS"): [1, 1, 1],
                ("b", "OutputRMS"): [1, NAN, NAN],
                ("b", "WeightNorm"): [1, NAN, NAN],
                ("c", "WeightNorm"): [1, 1, NAN],
            },
            ("b", "WeightNorm", 1),
        ),
        # a value, in the order of execution
        (
            {("a", "OutputRMS"): [1, 1, INF], ("b", "OutputRMS"): [1, 1, NAN]},
            ("a", "OutputRMS", 2),
        ),
        # gradients, in the order of backward
        (
            {
                ("a", "OutputGradRMS"): [1, NAN],
                ("b", "OutputGradRMS"): [1, NAN],
                ("c", "OutputGradRMS"): [1, 1],
            },
            ("b", "OutputGradRMS", 1),
        ),
        # the loss before the gradients that it makes
        ({("", "loss"): [1, NAN], ("a", "OutputGradRMS"): [1, NAN]}, ("", "loss", 1)),
        # a count
        ({("a", "NonFinite"): [0, 0, 7], ("b", "NonFinite"): [0, 0, 9]}, ("a", "NonFinite", 2)),
    ],
    ids=["weight", "value", "gradient", "loss", "count"],
)
def test_the_first_site_is_named(numbers, site):
    (found,) = non_finite(evidence(numbers))
    assert (found.module, found.quantity, found.step) == site
    assert found.severity == "alert"
    assert f"step {site[2]}: the first NaN or Inf is in" in found.text


def test_finite_numbers_are_no_finding():
    found = evidence({("a", "OutputRMS"): 1, ("a", "InputCovCondition"): INF})
    assert [*non_finite(found)] == []
    assert first_step(found) is None


def test_gradients_that_a_scaler_skips_are_a_note():
    numbers = {("a", "OutputGradRMS"): [INF, INF, 1, INF, 1], ("a", "WeightNorm"): [1.0] * 5}
    found = evidence(numbers)
    assert skipped_steps(found) == [0, 1, 3]
    (note,) = overflow(found, [0, 1, 3])
    assert (note.severity, note.module, note.step) == ("note", "a", 0)
    assert "as at 3 steps in all" in note.text


@pytest.mark.parametrize("weights", [[1, 1, NAN, NAN], [1, 1]], ids=["reach it", "end there"])
def test_gradients_that_reach_the_parameters_or_end_the_run_are_no_such_steps(weights):
    numbers = {("a", "OutputGradRMS"): [1, NAN], ("a", "WeightNorm"): weights}
    assert skipped_steps(evidence(numbers)) == []
