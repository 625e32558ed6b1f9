"""Descriptions are found by the optimizer's class."""

import pytest
import torch
from torch import nn

from taiyi_fx.optimizers.describe import describe_optimizer, description_of


class Own:
    param_groups = ()


class Derived(Own):
    pass


class Wrapper:
    def __init__(self, optimizer):
        self.optimizer = optimizer


def test_a_description_holds_for_derived_classes_and_behind_wrappers():
    describe_optimizer(Own, first_moment="m")
    own = description_of(Own())
    assert own is not None
    assert description_of(Derived()) is own
    assert description_of(Wrapper(Derived())) is own
    describe_optimizer(Derived, second_moment="v")
    derived = description_of(Derived())
    assert derived is not own
    assert derived.first_moment is None
    assert description_of(Own()) is own


def test_what_nobody_described_has_no_description():
    assert description_of(object()) is None
    assert description_of(torch.optim.LBFGS(nn.Linear(2, 2).parameters())) is None


@pytest.mark.parametrize(
    ("kind", "told", "why"),
    [
        ("Own", {"step": len}, "takes the optimizer's class, not 'Own'"),
        (Own, {}, "nothing is said of Own: give first_moment, second_moment, step"),
        (Own, {"step": "m"}, "step is a function of a TrainedParameter, not 'm'"),
        (Own, {"first_moment": 3}, "function of a TrainedParameter, or a key of the state, not 3"),
    ],
)
def test_what_is_no_description_is_refused(kind, told, why):
    with pytest.raises(TypeError, match=why):
        describe_optimizer(kind, **told)
