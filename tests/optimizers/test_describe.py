"""Descriptions are found by the optimizer's class."""

import pytest
import torch
from torch import nn

import taiyi_fx
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


@pytest.mark.parametrize("name", ["first_moment", "second_moment", "step"])
def test_a_function_that_returns_no_tensor_is_told_by_what_it_was_given_for(name):
    describe_optimizer(Own, **{name: lambda of: None})
    tells = getattr(description_of(Own()), name)
    with pytest.raises(
        TypeError, match=f"{name} of Own, as describe_optimizer .* not None: return"
    ):
        tells(None)


def test_a_step_that_is_none_is_a_warning_and_training_goes_on():
    class Silent(torch.optim.SGD):
        pass

    describe_optimizer(Silent, step=lambda of: None)  # pyright: ignore
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2)), {"0": ["EffectiveStep"]})
    optimizer = Silent(model.parameters(), lr=0.1)
    model.monitor.watch_optimizer(optimizer)
    model(torch.ones(1, 2)).sum().backward()
    with pytest.warns(
        taiyi_fx.MonitorWarning, match="step of Silent, as describe_optimizer got it"
    ):
        model.monitor.track(0)
    optimizer.step()
