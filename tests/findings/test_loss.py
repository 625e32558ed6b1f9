"""The course of the loss."""

import numpy as np
import pytest

from taiyi_fx.findings.loss import divergence, plateau
from tests.findings.given import evidence

NOISE = np.random.default_rng(0).normal(0, 0.05, 100)


def of(values):
    return evidence({("", "loss"): values})


def test_a_loss_that_rises_and_stays_is_an_alert_from_where_it_rose():
    (found,) = divergence(of(np.where(np.arange(100) < 40, 2.0, 30.0) + NOISE))
    assert (found.kind, found.severity, found.module) == ("divergence", "alert", "")
    assert 38 <= found.step <= 42


@pytest.mark.parametrize(
    "values",
    [
        2 - np.arange(100) / 60 + NOISE,
        np.where(np.arange(100) == 50, 30.0, 1.0) + NOISE,  # a spike that goes
        np.where((np.arange(100) > 20) & (np.arange(100) < 40), 30.0, 1.0) + NOISE,  # comes back
        -1 - np.arange(100) / 10,
        [2.0, 90.0],
    ],
    ids=["falls", "spike", "comes back", "negative", "short"],
)
def test_other_losses_do_not_diverge(values):
    assert [*divergence(of(values))] == []


def test_a_loss_that_stays_where_it_began_is_a_note():
    (found,) = plateau(of(2.3 + NOISE))
    assert (found.kind, found.severity) == ("plateau", "note")


@pytest.mark.parametrize(
    "values", [2.3 - np.arange(100) / 200 + NOISE, (2.3 + NOISE)[:30]], ids=["falls", "short"]
)
def test_a_loss_that_falls_or_has_no_course_yet_is_none(values):
    assert [*plateau(of(values))] == []
