"""Settings of an optimizer that nobody means."""

import numpy as np
import pytest

from taiyi_fx.findings import GroupSettings
from taiyi_fx.findings.rules.optimizer.odd_settings import odd_settings
from tests.findings.given import evidence, knowing

NAMES = ("h.0.up", "h.0.down", "h.1.up", "h.1.down", "head")


def of(*groups):
    known = evidence({(name, "WeightNorm"): 1.0 for name in NAMES})
    return knowing(known, group_settings=[GroupSettings(*group) for group in groups])


@pytest.mark.parametrize(
    ("momentum", "severity", "words"),
    [
        (0.999, "warning", "the last 1000 gradients"),
        (1.1, "alert", "all gradients there ever were"),
    ],
)
def test_a_momentum_near_or_above_one_is_told(momentum, severity, words):
    (found,) = odd_settings(of((NAMES, momentum, False)))
    assert (found.kind, found.module, found.severity) == ("odd_setting", "", severity)
    assert words in found.text


def test_betas_that_are_exchanged_are_told_so():
    (found,) = odd_settings(of((NAMES, 0.999, False, "adam", 0.0, 0.9)))
    assert found.text.endswith("its betas, 0.999 and 0.9, look exchanged")
    (found,) = odd_settings(of((NAMES, 0.999, False, "adam", 0.0, 0.9999)))
    assert "exchanged" not in found.text


def test_one_group_that_goes_uphill_is_named():
    groups = (NAMES[2:4], 0.9, True), ((*NAMES[:2], NAMES[4]), 0.9, False)
    (found,) = odd_settings(of(*groups))
    assert (found.module, found.severity) == ("h.1", "warning")
    assert "the group of 'h.1' maximizes" in found.text


def test_momentum_that_takes_nothing_of_a_gradient_is_an_alert():
    (found,) = odd_settings(of((NAMES, 0.9, False, "sgd", 1.0)))
    assert (found.severity, found.module, found.value) == ("alert", "", 1.0)
    assert "takes 0 of each gradient" in found.text
    assert "dampening" in found.advice


@pytest.mark.parametrize(
    "groups",
    [
        [(NAMES, 0.9, False, "sgd", 0.9)],
        [(NAMES, 0.0, False, "sgd", 1.0)],
        [(NAMES, 0.99, False)],
        [(NAMES, 0.9, True)],
        [(NAMES[:2], 0.0, True), (NAMES[2:], 0.9, True)],
    ],
    ids=["dampened", "no momentum", "usual", "uphill", "all uphill"],
)
def test_settings_that_are_meant_are_none(groups):
    assert [*odd_settings(of(*groups))] == []


def test_a_rate_that_falls_below_zero_is_an_alert_from_then_on():
    falls = 0.1 - np.arange(40) / 300
    (found,) = odd_settings(evidence({("", "LearningRate"): falls}))
    assert (found.severity, found.step, found.module) == ("alert", 31, "")
    assert [*odd_settings(evidence({("", "LearningRate"): np.maximum(falls, 0)}))] == []


@pytest.mark.parametrize(
    ("epsilon", "step", "is_told"),
    [(0.1, 1e-5, True), (1e-8, 1e-5, False), (0.1, 1e-3, False), (1e-3, 1e-5, False)],
    ids=["large", "usual", "with a rate for it", "not beside the gradients"],
)
def test_an_epsilon_beyond_the_gradients_is_told_where_steps_are_next_to_nothing(
    epsilon, step, is_told
):
    numbers = {}
    for name in ("a", "b", "c"):
        numbers |= {(name, "WeightNorm"): 1.0, (name, "ParameterRMS.weight"): 0.1}
        numbers |= {(name, "WeightGradNorm"): 1e-3, (name, "UpdateRatio.weight"): step}
    group = GroupSettings(("a", "b", "c"), 0.9, False, "adam", 0.0, 0.999, epsilon)
    found = [*odd_settings(knowing(evidence(numbers), group_settings=(group,)))]
    assert [one.kind for one in found] == ["odd_setting"] * is_told
    assert all("an eps of 0.1, 1e+03 times the size of its gradients" in one.text for one in found)
