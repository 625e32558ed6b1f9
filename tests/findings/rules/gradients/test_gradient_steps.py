"""Gradients of single weights that jump."""

import numpy as np
import pytest

from taiyi_fx.findings import Attributes
from taiyi_fx.findings.rules.gradients.gradient_steps import gradient_steps
from tests.findings.given import evidence, knowing

NAMES = ["a", "b", "c", "d"]
ONCE = np.where(np.arange(40) == 14, 1000.0, 1.0)
FROM = np.where(np.arange(40) >= 30, 1000.0, 1.0)


def of(gradients=(), returned=(), given=()):
    numbers = {(name, "WeightGradNorm"): 2.0 for name in NAMES}
    numbers |= {(name, "OutputGradRMS"): 1.0 for name in NAMES}
    numbers |= {(name, "InputRMS"): 1.0 for name in NAMES[1:]}  # an embedding has none
    for quantity, changed in (
        ("WeightGradNorm", gradients),
        ("OutputGradRMS", returned),
        ("InputRMS", given),
    ):
        numbers |= {(name, quantity): values for name, values in dict(changed).items()}
    return evidence(numbers)


@pytest.mark.parametrize(
    ("name", "jump", "step"), [("c", ONCE, 14), ("c", FROM, 30), ("a", ONCE, 14)]
)
def test_one_that_nothing_explains_is_named_with_its_step(name, jump, step):
    (found,) = gradient_steps(of({name: jump}))
    assert (found.kind, found.module, found.step) == ("changed_gradient", name, step)
    assert "is 1e+03 times" in found.text


@pytest.mark.parametrize(
    "known",
    [
        of(),
        of({"c": ONCE}, {"c": ONCE}),
        of({"c": ONCE}, given={"c": ONCE}),
        of(dict.fromkeys(NAMES, ONCE)),
        of({"c": 1000.0}),
        of({"c": np.where(np.arange(40) == 14, 100.0, 1.0)}),
        of({"c": ONCE[:7]}),
    ],
    ids=["none", "loss", "input", "all", "from the start", "batch that pulls one way", "few"],
)
def test_those_that_are_explained_are_none(known):
    assert [*gradient_steps(known)] == []


def test_of_two_weights_one_cannot_be_odd():
    numbers = {(name, quantity): 1.0 for name in "ab" for quantity in ("InputRMS", "OutputGradRMS")}
    numbers |= {("a", "WeightGradNorm"): 1.0, ("b", "WeightGradNorm"): ONCE}
    assert [*gradient_steps(evidence(numbers))] == []


def test_a_recurrent_layer_s_gradient_grows_on_its_way_through_time():
    known = {"c": Attributes("torch.nn.modules.rnn.LSTM", {})}
    assert [*gradient_steps(knowing(of({"c": ONCE}), attributes=known))] == []


@pytest.mark.parametrize(("agreement", "is_told"), [(1.0, True), (0.8, False), (np.nan, False)])
def test_a_gradient_that_is_never_its_layers_own_is_none(agreement, is_told):
    numbers = {(name, "WeightGradNorm"): 2.0 for name in NAMES}
    numbers |= {(name, "OutputGradRMS"): 1.0 for name in NAMES}
    numbers |= {("c", "WeightGradNorm"): ONCE, ("c", "WeightGradAgreement"): agreement}
    assert len([*gradient_steps(evidence(numbers))]) == is_told
