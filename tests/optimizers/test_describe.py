"""Descriptions are found by the optimizer's class, and what they are given is wide."""

import pytest
import torch
from torch import nn

from taiyi_fx.optimizers.describe import (
    NoGradient,
    TrainedParameter,
    describe_optimizer,
    description_of,
)


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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_are_wide_and_of_the_true_loss(dtype):
    p = nn.Parameter(torch.ones(3, dtype=dtype))
    p.grad = torch.full_like(p, 4)
    state = {"m": torch.ones(3, dtype=dtype), "step": 7, "none": None}
    of = TrainedParameter(p, state, {"lr": 0.1}, 0.25)
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    assert [x.dtype for x in (of.parameter, of.gradient, of.state["m"])] == [wide] * 3
    assert of.dtype is dtype
    assert of.gradient.tolist() == [1, 1, 1]
    assert not of.parameter.requires_grad
    assert of.state["step"] == 7
    assert list(of.state) == [*state]
    assert len(of.state) == 3
    with pytest.raises(KeyError):
        of.state["none"]
    p.grad = None
    with pytest.raises(NoGradient):
        _ = of.gradient


def test_a_complex_number_is_two_real_ones_and_a_sparse_gradient_is_dense():
    p = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    assert TrainedParameter(p, {}, {}).parameter.shape == (2, 2)
    embedding = nn.Embedding(3, 2, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    of = TrainedParameter(embedding.weight, {}, {})
    assert of.gradient.tolist() == [[0, 0], [1, 1], [0, 0]]
