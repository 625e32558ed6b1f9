"""The order of findings."""

import pytest

from taiyi_fx.findings.causes import causes_first
from taiyi_fx.findings.finding import Finding


def of(kind, severity, step, module="h.1"):
    return Finding(kind, severity, module, "WeightNorm", step, 1.0, "", "it is so", "look")


STEPS = of("large_steps", "alert", 2, "")


@pytest.mark.parametrize(
    ("other", "kinds"),
    [
        (of("outlier", "warning", 0), ["outlier", "large_steps"]),
        (of("outlier", "alert", 5), ["large_steps", "outlier"]),
        (of("drift", "alert", 1), ["drift", "large_steps"]),
        (of("share_of_trouble", "alert", 9), ["large_steps", "share_of_trouble"]),
        (of("wild_parameter", "alert", 0), ["wild_parameter", "large_steps"]),
        (of("plateau", "warning", 0), ["large_steps", "plateau"]),
        (of("changed_gradient", "alert", 2), ["changed_gradient", "large_steps"]),
        (of("odd_loss", "warning", 0), ["odd_loss", "large_steps"]),
    ],
    ids=[
        "before",
        "behind",
        "drift before",
        "dead behind",
        "initialisation",
        "no cause",
        "its gradient",
        "its loss",
    ],
)
def test_large_steps_come_behind_what_led_to_them_and_before_what_they_left(other, kinds):
    assert [found.kind for found in causes_first([other, STEPS])] == kinds
    assert [found.kind for found in causes_first([STEPS, other])] == kinds


def test_what_led_to_them_is_as_urgent():
    assert causes_first([STEPS, of("outlier", "warning", 0)])[0].severity == "alert"


def test_those_of_one_module_come_behind_what_was_there_before_too():
    own, outlier = of("large_steps", "alert", 2), of("outlier", "warning", 0, "h.0")
    assert [found.kind for found in causes_first([own, outlier])] == ["outlier", "large_steps"]


def test_without_large_steps_the_order_is_that_of_severity():
    every = [of("outlier", "warning", 0), of("plateau", "note", 0)]
    assert causes_first(every) == every


def test_weights_that_all_drift_are_told_once():
    every = [of("drift", "alert", 4, ""), of("outlier", "alert", 9)]
    assert causes_first(every) == every


def test_a_weight_that_jumps_comes_behind_what_was_wrong_long_before():
    jump, outlier = of("weight_jump", "alert", 40, "h.0"), of("outlier", "alert", 0)
    assert [found.kind for found in causes_first([jump, outlier])] == ["outlier", "weight_jump"]
    late = of("outlier", "alert", 38)
    assert [found.kind for found in causes_first([jump, late])] == ["weight_jump", "outlier"]
    warned = of("outlier", "warning", 0)
    assert [found.kind for found in causes_first([jump, warned])] == ["weight_jump", "outlier"]


@pytest.mark.parametrize("kind", ["detached", "squashed_loss", "broadcast"])
def test_what_is_wrong_from_the_first_step_comes_before_what_a_training_comes_to(kind):
    later = [of("drift", "alert", 52), of("divergence", "alert", 20, "")]
    ordered = causes_first([*later, of(kind, "warning", 0)])
    assert [one.kind for one in ordered] == [kind, "drift", "divergence"]
    assert ordered[0].severity == "alert"


@pytest.mark.parametrize(
    ("structural", "later"),
    [
        (of("detached", "note", 0), of("drift", "alert", 52)),
        (of("detached", "warning", 19), of("drift", "alert", 52)),
        (of("detached", "warning", 0), of("no_update", "alert", 0)),
        (of("odd_layer", "warning", 0), of("drift", "alert", 52)),
    ],
    ids=["a note", "from later on", "as old", "on purpose"],
)
def test_others_stay_behind_what_is_more_urgent(structural, later):
    assert causes_first([structural, later]) == [later, structural]
