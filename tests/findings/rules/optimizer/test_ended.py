"""Learning rates that fell to nothing long before the training ends."""

import numpy as np
import pytest

from taiyi_fx.findings.rules.optimizer.ended import ended_rates
from tests.findings.given import evidence

STEPS = np.arange(40)
COSINE = 0.05 * (1 + np.cos(np.pi * STEPS / 39))


def found_in(rate, name="LearningRate"):
    return [*ended_rates(evidence({("", name): rate}))]


@pytest.mark.parametrize("name", ["LearningRate", "LearningRate.group1"])
@pytest.mark.parametrize(
    "rate", [0.1 * 0.5**STEPS, np.where(STEPS < 23, 0.1, 0.0)], ids=["by batch", "to zero"]
)
def test_a_rate_that_is_nothing_for_two_fifths_of_the_training_is_told(rate, name):
    (found,) = found_in(rate, name)
    since = int(np.argmax(rate <= 1e-4))
    assert (found.kind, found.severity, found.step) == ("ended_rate", "warning", since)
    assert f"by step {since}" in found.text


@pytest.mark.parametrize(
    "rate",
    [
        np.full(40, 0.1),
        np.zeros(40),
        COSINE,
        np.concatenate([COSINE[::2], COSINE[::2]]),
        np.minimum(STEPS / 10, 1.0) * 0.1,
        np.where(STEPS < 10, 1e-6, 0.1),
        np.where(STEPS < 30, 0.1, 0.0),
        np.where((STEPS < 5) | (STEPS == 39), 0.1, 0.0),
        0.1 * 0.5 ** (STEPS // 5),
    ],
    ids=["one", "none", "cosine", "restarts", "warm-up", "begins", "ends", "alternates", "steps"],
)
def test_schedules_that_end_with_the_training_are_none(rate):
    assert found_in(rate) == []
