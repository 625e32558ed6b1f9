"""Weight decay that takes too much."""

import numpy as np
import pytest

from taiyi_fx.findings import find
from taiyi_fx.findings.facts.of_optimizer import GroupSettings
from taiyi_fx.findings.rules.optimizer.decays import large_decays
from tests.findings.given import evidence, knowing


def of(shrinkage, rates=None, groups=None, size=1.0):
    names = [f"h.{i}.up" for i in range(4)]
    numbers = {(name, "WeightNorm"): size for name in names} | (rates or {})
    return knowing(
        evidence(numbers),
        shrinkage=dict(zip(names, shrinkage, strict=True)),
        decays=dict(zip(names, shrinkage, strict=True)),
        groups=groups or dict.fromkeys(names, (0, 1e-3)),
    )


def test_a_decay_of_a_hundredth_of_all_weights_at_each_step_is_a_warning_of_the_model():
    (found,) = large_decays(of([10.0] * 4))
    assert (found.kind, found.severity, found.module) == ("large_decay", "warning", "")
    assert "halved in 69 steps" in found.text


def test_one_of_a_few_modules_names_them():
    (found,) = large_decays(of([10.0, 0.1, 0.1, 0.1]))
    assert found.module == "h.0.up"


def test_a_usual_decay_is_none():
    assert [*large_decays(of([1.0] * 4))] == []


@pytest.mark.parametrize("quantity", ["LearningRate", "LearningRate.group1"])
def test_the_rate_is_that_of_the_training_and_not_that_of_the_end_of_a_schedule(quantity):
    names = [f"h.{i}.up" for i in range(4)]
    ended = of([10.0] * 4, {("", quantity): 1e-3}, dict.fromkeys(names, (1, 0.0)))
    assert len([*large_decays(ended)]) == 1


def test_what_shrinks_by_it_is_beneath_it():
    (found,) = find(of([10.0] * 4, size=[0.99**i for i in range(200)]))
    assert found.kind == "large_decay"
    assert [one.kind for one in found.consequences] == ["drift"]


def test_a_decay_below_zero_is_an_alert():
    weights = {(name, "WeightNorm"): 1.0 for name in "abcd"}
    (found,) = large_decays(knowing(evidence(weights), decays=dict.fromkeys("abcd", -0.1)))
    assert (found.kind, found.severity, found.module) == ("large_decay", "alert", "")
    assert "is -0.1, below 0" in found.text
    (found,) = large_decays(knowing(evidence(weights), decays={"a": 0.1, "b": -0.1}))
    assert found.module == "b"


FADING = 0.98 ** np.arange(40)


def within(size=FADING, gradient=0.05 * FADING, decay=0.1, rule="adam", shrinkage=None):
    names = tuple("abcd")
    numbers = {(name, "WeightNorm"): size for name in names}
    numbers |= {(name, "WeightGradNorm"): gradient for name in names}
    group = GroupSettings(names, 0.9, False, rule=rule)
    known = knowing(evidence(numbers), group_settings=(group,), shrinkage=shrinkage or {})
    return [*large_decays(knowing(known, decays=dict.fromkeys(names, decay)))]


def test_what_had_no_gradient_before_any_decay_is_not_the_decay_s():
    assert within(gradient=1e-9 * FADING, decay=5e-4) == []


def test_a_decay_that_is_most_of_each_gradient_of_adams_is_told():
    (found,) = within()
    assert (found.kind, found.severity, found.module) == ("large_decay", "warning", "")
    assert "is added to the gradient, and is 2 times as large as the loss's" in found.text
    assert "AdamW" in found.advice


@pytest.mark.parametrize(
    "of",
    [
        {"decay": 1e-3},
        {"size": np.ones(40)},
        {"rule": "sgd"},
        {"shrinkage": dict.fromkeys("abcd", 0.1)},
        {"gradient": FADING},
    ],
    ids=["small", "weights that stay", "not of Adam", "beside the step", "of larger gradients"],
)
def test_a_smaller_one_or_one_beside_the_gradient_is_none(of):
    assert within(**of) == []
