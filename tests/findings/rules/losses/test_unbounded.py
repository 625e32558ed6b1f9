"""Losses that fall without end."""

from dataclasses import replace

import numpy as np
import pytest

from taiyi_fx.findings.rules.losses.unbounded import unbounded_losses
from tests.findings.given import evidence

STEPS = np.arange(80)
FALLING = 0.3 - 0.5 * STEPS**2.0


def test_a_loss_that_falls_below_zero_without_end_is_an_alert_with_what_grows():
    numbers = {("", "loss"): FALLING, ("a", "OutputRMS"): 0.1 + STEPS}
    numbers["b", "OutputRMS"] = 1.0
    (found,) = unbounded_losses(evidence(numbers))
    assert (found.kind, found.module, found.severity) == ("unbounded_loss", "", "alert")
    assert (found.step, found.value) == (5, FALLING[-1])
    assert "it grows what 'a' returns, by a factor of 791" in found.text


@pytest.mark.parametrize(
    "values",
    [
        3 - 0.1 * STEPS,
        -1e4 * (1 - np.exp(-STEPS / 5)),
        np.abs(FALLING),
        2000 * np.exp(-STEPS / 20),
        FALLING[:30],
        np.where(STEPS < 70, FALLING, np.nan),
    ],
    ids=["likelihood", "settles", "rises", "positive", "short", "ends"],
)
def test_one_that_settles_or_stays_small_is_none(values):
    assert [*unbounded_losses(evidence({("", "loss"): values}))] == []


def test_a_cross_entropy_that_begins_at_minus_a_guess_and_falls_has_the_wrong_sign():
    known = replace(evidence({("", "loss"): -1.6 - np.arange(20) / 5}), classes={"loss": 5})
    (found,) = unbounded_losses(known)
    assert (found.kind, found.severity, found.step) == ("unbounded_loss", "alert", 0)
    assert "a guess among 5 classes costs with a minus" in found.text


@pytest.mark.parametrize(
    ("values", "classes"),
    [(-1.6 - np.arange(20) / 5, 0), (-1.6 - np.arange(20) / 50, 5), (0.1 - np.arange(20) / 5, 5)],
    ids=["no classes", "stays", "begins elsewhere"],
)
def test_other_losses_below_zero_have_their_sign(values, classes):
    known = replace(evidence({("", "loss"): values}), classes={"loss": classes})
    assert [*unbounded_losses(known)] == []
