"""Running statistics that do not follow."""

import numpy as np
import pytest

from taiyi_fx.findings import LayerSettings
from taiyi_fx.findings.rules.structure.batch_norm import stale_statistics
from tests.findings.given import evidence, knowing

N = np.arange(60)


def test_a_distance_that_does_not_fall_is_a_finding():
    (found,) = stale_statistics(evidence({("bn", "VarTID"): 0.6 - N / 600}))
    assert (found.module, found.severity) == ("bn", "warning")


def test_one_that_falls_or_is_small_is_none():
    for values in (0.1 + 0.6 * 0.8**N, 0.2 + 0 * N, [0.6] * 10):
        assert [*stale_statistics(evidence({("bn", "VarTID"): values}))] == []


def test_one_that_still_falls_is_none():
    falls = 0.9 - N[:40] ** 2 / 2400
    assert falls[20:].mean() > 0.5
    assert [*stale_statistics(evidence({("bn", "VarTID"): falls}))] == []


def test_a_mean_that_stays_a_deviation_away_is_a_finding():
    (found,) = stale_statistics(evidence({("bn", "MeanTID"): 30 + N / 9, ("bn", "VarTID"): 0.1}))
    assert (found.module, found.quantity) == ("bn", "MeanTID")
    assert "deviations away" in found.text
    for values in (0.4 + 0 * N, 3 * 0.9**N, [30.0] * 10):
        assert [*stale_statistics(evidence({("bn", "MeanTID"): values}))] == []


def test_running_statistics_that_are_not_finite_any_more_are_an_alert():
    values = np.where(np.arange(40) < 25, 0.1, np.nan)
    known = evidence({("bn", "MeanTID"): values, ("bn", "VarTID"): 0.1, ("other", "MeanTID"): 0.1})
    (found,) = stale_statistics(known)
    assert (found.severity, found.module, found.step) == ("alert", "bn", 25)


def test_what_never_was_finite_and_what_is_again_are_none():
    for values in (np.nan * np.ones(40), np.where(np.arange(40) == 25, np.nan, 0.1)):
        assert [*stale_statistics(evidence({("bn", "MeanTID"): values}))] == []


@pytest.mark.parametrize(
    ("momentum", "size", "is_told"), [(0.1, 0.1, False), (0.1, 1.0, True), (0.0, 0.1, True)]
)
def test_a_variance_of_1_takes_long_to_come_down_to_a_small_one(momentum, size, is_told):
    known = evidence({("bn", "VarTID"): 0.9 - N / 600, ("bn", "InputRMS"): size + 0 * N})
    known = knowing(known, settings={"bn": LayerSettings(momentum=momentum)})
    assert len([*stale_statistics(known)]) == is_told


@pytest.mark.parametrize("quantity", ["MeanTID", "VarTID"])
def test_a_frozen_module_in_evaluation_mode_may_be_of_other_data(quantity):
    numbers = {("bn", quantity): 3.0 + 0 * N}
    assert len([*stale_statistics(evidence(numbers))]) == 1
    settings = {"bn": LayerSettings(momentum=0.1, is_at_rest=True)}
    assert [*stale_statistics(knowing(evidence(numbers), settings=settings))] == []
