"""The size of the optimizer's steps."""

import numpy as np
import pytest

from taiyi_fx.findings.steps import step_sizes
from tests.findings.given import evidence


def steps(ratio, weight=1.0):
    numbers = {(f"h.{i}", "UpdateRatio.weight"): ratio for i in range(4)}
    return evidence({**numbers, **{(f"h.{i}", "WeightNorm"): weight for i in range(4)}})


def test_steps_as_large_as_the_weights_are_an_alert():
    (found,) = step_sizes(steps(np.where(np.arange(40) > 5, 0.5, 1e-3)))
    assert (found.kind, found.severity, found.step, found.module) == ("large_steps", "alert", 6, "")


def test_steps_of_nothing_are_a_warning():
    (found,) = step_sizes(steps(1e-9))
    assert (found.kind, found.severity) == ("small_steps", "warning")


@pytest.mark.parametrize(
    ("ratio", "weight"),
    [
        (1e-3, 1.0),
        (np.where(np.arange(40) == 5, 0.5, 1e-3), 1.0),
        (1 / (1 + np.arange(40.0)), np.arange(40.0)),
        (np.where(np.arange(40) > 20, 0.0, 1e-3), 1.0),
    ],
    ids=["usual", "once", "began at zero", "ended"],
)
def test_other_steps_are_none(ratio, weight):
    assert [*step_sizes(steps(ratio, weight))] == []
