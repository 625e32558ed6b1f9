"""Weights that change by more than their optimizer can make them."""

import numpy as np
import pytest

from taiyi_fx.findings import GroupSettings
from taiyi_fx.findings.rules.optimizer.foreign_steps import foreign_steps
from tests.findings.given import evidence, knowing

NAMES = ("h.0", "h.1", "h.2", "h.3")
RATE, GRADIENT = 0.01, 0.5


def found_for(rule, steps, momentum=0.9, names=("h.2",), second=0.999, **more):
    """Weights of norm 4 and elements of 0.5, of which some take steps of a size."""
    numbers = {("", "LearningRate"): RATE}
    for name in NAMES:
        numbers[name, "WeightNorm"] = 4.0
        numbers[name, "ParameterRMS.weight"] = 0.5
        numbers[name, "WeightGradNorm"] = GRADIENT
        numbers[name, "UpdateRatio.weight"] = steps if name in names else 1e-4
    known = knowing(
        evidence(numbers),
        groups=dict.fromkeys(NAMES, (0, RATE)),
        group_settings=[GroupSettings(NAMES, momentum, False, rule, second=second)],
        **more,
    )
    return [*foreign_steps(known)]


def one(size, at=20):
    return np.where(np.arange(40) == at, size, 1e-4)


def test_a_step_beyond_the_rate_of_adam_is_told_with_the_first_of_them():
    (found,) = found_for("adam", one(20 * RATE))
    assert (found.kind, found.severity) == ("foreign_steps", "alert")
    assert (found.module, found.step) == ("h.2", 20)


def test_steps_beyond_all_gradients_of_sgd_are_told():
    largest = RATE * GRADIENT / 4 / (1 - 0.9)
    (found,) = found_for("sgd", 10 * largest)
    assert (found.module, found.step) == ("h.2", 0)


def test_steps_of_most_weights_are_the_models():
    (found,) = found_for("adam", one(20 * RATE), names=NAMES[:3])
    assert found.module == ""


@pytest.mark.parametrize(
    "found",
    [
        found_for("adam", one(5 * RATE)),
        found_for("adam", one(20 * RATE), momentum=0.999, second=0.9),
        found_for("adam", one(0.3), decays=dict.fromkeys(NAMES, 30.0)),
        found_for("sgd", one(0.5)),
        found_for("sgd", 0.005),
        found_for("", 0.5),
    ],
    ids=[
        "a jump of the gradient",
        "squares forgotten first",
        "decay",
        "once",
        "momentum",
        "another rule",
    ],
)
def test_steps_that_a_rule_allows_are_none(found):
    assert found == []


def test_the_largest_rate_of_a_schedule_counts():
    numbers = {("h.0", "UpdateRatio.weight"): 20 * RATE, ("h.0", "ParameterRMS.weight"): 0.5}
    numbers |= {("h.0", "WeightNorm"): 4.0, ("", "LearningRate"): np.linspace(10 * RATE, 0, 40)}
    known = knowing(
        evidence(numbers),
        groups={"h.0": (0, 0.0)},
        group_settings=[GroupSettings(("h.0",), 0.9, False, "adam", second=0.999)],
    )
    assert [*foreign_steps(known)] == []
    unread = known.with_series(s for s in known.series if s.quantity != "LearningRate")
    assert [*foreign_steps(unread)] == []  # what it was nobody knows


def test_where_most_weights_leap_with_one_beyond_the_rate_it_is_the_models():
    numbers = {("", "LearningRate"): RATE}
    for i, name in enumerate(NAMES):
        numbers[name, "ParameterRMS.weight"] = 0.5
        numbers[name, "UpdateRatio.weight"] = one(20 * RATE if i == 2 else RATE)
    known = knowing(
        evidence(numbers),
        groups=dict.fromkeys(NAMES, (0, RATE)),
        group_settings=[GroupSettings(NAMES, 0.9, False, "adam", second=0.999)],
    )
    (found,) = foreign_steps(known)
    assert (found.module, found.step) == ("", 20)


def test_the_weights_of_a_recurrent_layer_are_held_against_the_rate_too():
    numbers = {("lstm", "ParameterRMS.weight_hh_l0"): 0.5, ("fc", "ParameterRMS.weight"): 0.5}
    numbers |= {("lstm", "UpdateRatio.weight_hh_l0"): one(20 * RATE), ("", "LearningRate"): RATE}
    numbers |= {("fc", "UpdateRatio.weight"): 1e-3, ("act", "UpdateRatio.weight"): 1e-3}
    known = knowing(
        evidence(numbers),
        groups=dict.fromkeys(("lstm", "fc", "act"), (0, RATE)),
        group_settings=[GroupSettings(("lstm", "fc", "act"), 0.9, False, "adam", second=0.999)],
    )
    (found,) = foreign_steps(known)
    assert found.module == "lstm"


def test_a_first_clamp_is_none():
    assert found_for("adam", one(0.9, at=0)) == []
