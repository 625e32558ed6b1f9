"""Learning rates that fall back to the beginning of a warm-up."""

import numpy as np
import pytest

from taiyi_fx.findings.rules.optimizer.restarted_warm_ups import restarted_warm_ups
from tests.findings.given import evidence

STEPS = np.arange(120)
THINNED = np.unique(np.append(np.arange(16), np.arange(0, 120, 3)))
SAW = (1 + STEPS % 10) / 100
TRIANGLE = 0.01 + 0.01 * np.abs((STEPS + 10) % 20 - 10)
COSINES = 0.05 * (1.1 + np.cos(np.pi * (STEPS % 20) / 20))


def found_in(rate, steps=STEPS):
    return [*restarted_warm_ups(evidence({("", "LearningRate"): rate[steps]}, steps))]


@pytest.mark.parametrize("steps", [STEPS, THINNED], ids=["all", "some"])
def test_a_rate_that_climbs_anew_each_epoch_is_a_warning(steps):
    (found,) = found_in(SAW, steps)
    assert (found.severity, found.step, found.module) == ("warning", 10, "")
    assert "climbs to 0.1 and falls back to 0.01 by step 10" in found.text


@pytest.mark.parametrize("steps", [STEPS, THINNED, STEPS[::5], STEPS[::7]])
@pytest.mark.parametrize(
    "rate",
    [
        np.full(120, 0.1),
        np.minimum(STEPS / 20, 1.0),
        TRIANGLE,
        COSINES,
        COSINES[::-1],
        0.1 * 0.3 ** (STEPS // 30),
        np.where(STEPS < 60, STEPS, STEPS - 60) / 60,
        np.minimum(STEPS / 20, 1.0) * np.where(STEPS % 40 < 20, 1.0, 0.1),
    ],
    ids=["one", "warm-up", "triangle", "cosines", "up", "steps", "resumed once", "alternates"],
)
def test_other_schedules_are_none(rate, steps):
    assert found_in(rate, steps) == []
