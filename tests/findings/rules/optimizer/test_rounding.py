"""Steps that rounding takes away, at the full learning rate."""

import numpy as np
import pytest

from taiyi_fx.findings.rules.optimizer.learning import no_update
from taiyi_fx.findings.rules.optimizer.rounding import updates_lost
from tests.findings.given import evidence

LOST = "UpdateLost.weight"
RATE = {("", "LearningRate"): 1e-4}


def found(numbers, rate=RATE, steps=None):
    return [*updates_lost(evidence({**numbers, **rate}, steps))]


def test_a_model_whose_steps_are_all_lost_is_named_as_a_whole():
    (one,) = found({(f"layer{i}", LOST): 0.995 for i in range(4)})
    assert (one.kind, one.severity, one.module) == ("updates_lost", "alert", "")
    assert one.value == pytest.approx(0.995)
    assert "since step 0, 99.5 % of the elements of most weights ('layer0', 'layer1'" in one.text
    assert "rounds stochastically" in one.advice


def test_fewer_are_a_warning_and_a_module_alone_is_named():
    others = {(f"layer{i}", LOST): 0.5 for i in range(4)}
    (one,) = found({**others, ("head", LOST): 0.98})
    assert (one.severity, one.module) == ("warning", "head")
    assert "98 % of the elements of the weight of 'head'" in one.text


def test_a_model_that_loses_most_of_most_steps_is_a_warning():
    shares = {f"layer{i}": share for i, share in enumerate((0.7, 0.85, 0.88, 0.9))}
    (one,) = found({(name, LOST): share for name, share in shares.items()})
    assert (one.severity, one.module) == ("warning", "")
    assert "88 % of the elements of most weights ('layer1', 'layer2' and 'layer3')" in one.text
    assert found({(f"layer{i}", LOST): share for i, share in enumerate((0.7, 0.6, 0.9))}) == []


def test_a_single_one_at_the_edge_is_usual():
    others = {(f"layer{i}", LOST): 0.5 for i in range(4)}
    assert found({**others, ("head", LOST): 0.96}) == []


def test_what_begins_later_says_since_when():
    (one,) = found({("fc", LOST): [0.4] * 10 + [1.0] * 30}, {("", "LearningRate.group1"): 1e-4})
    assert one.step == 10
    assert "since step 10, all of the elements" in one.text


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_that_some_are_lost_is_usual(share):
    assert found({("fc", LOST): share}) == []
    assert found({("fc", LOST): [1.0] * 12 + [share] * 28}) == []


def test_at_the_ends_of_a_schedule_nothing_is_said():
    n = 100
    warm_up, decay = np.linspace(1e-7, 1e-4, n), np.geomspace(1e-4, 1e-9, n)
    lost_at = {k: np.where(rate < 3e-5, 1.0, 0.6) for k, rate in (("w", warm_up), ("d", decay))}
    assert found({("fc", LOST): lost_at["w"]}, {("", "LearningRate"): warm_up}) == []
    assert found({("fc", LOST): lost_at["d"]}, {("", "LearningRate"): decay}) == []
    assert found({("fc", LOST): np.ones(n)}, {("", "LearningRate"): warm_up}) == []


def test_few_numbers_say_nothing_nor_do_they_without_a_rate():
    assert found({("fc", LOST): [1.0] * 15}, {("", "LearningRate"): [1e-4] * 15}) == []
    assert found({("fc", LOST): 1.0}, {}) == []
    (one,) = found({("fc", LOST): [1.0] * 80}, {})
    assert one.severity == "alert"
    late = np.arange(500, 580)
    assert found({("fc", LOST): [1.0] * 80}, {}, steps=late) == []


def test_other_parameters_are_not_judged():
    assert found({("norm", "UpdateLost.bias"): 1.0}) == []


SIZE = "ParameterRMS.weight"


def test_gains_near_one_lose_their_steps_in_many_a_healthy_training():
    gains = {(f"norm{i}", LOST): 1.0 for i in range(5)} | {
        (f"norm{i}", SIZE): 1.0 for i in range(5)
    }
    others = {(f"fc{i}", LOST): 0.5 for i in range(3)} | {(f"fc{i}", SIZE): 0.02 for i in range(3)}
    (one,) = found({**gains, **others})
    assert (one.severity, one.module) == ("note", "norm0")
    assert "of the weights of 'norm0', 'norm1', 'norm2' and 2 more" in one.text
    (one,) = found({**gains, **{key: 0.99 if key[1] == LOST else x for key, x in others.items()}})
    assert (one.severity, one.module) == ("alert", "")
    assert "('fc0', 'fc1' and 'fc2')" in one.text


def test_what_rounding_explains_is_not_left_out_of_the_optimizer():
    still = {("norm", "WeightNorm"): 4.0, ("norm", "WeightGradNorm"): 4.0}
    moving = {("fc", "WeightNorm"): np.linspace(1, 2, 40), ("fc", "WeightGradNorm"): 1.0}
    (one,) = no_update(evidence({**still, **moving}))
    assert one.module == "norm"
    assert [*no_update(evidence({**still, **moving, ("norm", LOST): 1.0}))] == []
