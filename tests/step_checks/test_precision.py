"""Digits that float32 loses."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from tests.step_checks import steps


class Spread(nn.Module):
    """Standard deviations far from zero, by the mean of squares or by what torch has."""

    def __init__(self, by_squares):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.spread = nn.Linear(6, 64), Variance(by_squares)
        self.last = nn.Linear(1, steps.CLASSES)
        nn.init.constant_(self.first.bias, 3000.0)

    def forward(self, x):
        return self.last(self.spread(self.first(x)))


class Variance(nn.Module):
    def __init__(self, by_squares):
        super().__init__()
        self.by_squares = by_squares

    def forward(self, x):
        if not self.by_squares:
            return x.var(1, correction=0, keepdim=True)
        return x.square().mean(1, keepdim=True) - x.mean(1, keepdim=True).square()


@pytest.mark.parametrize("by_squares", [True, False])
def test_a_difference_of_squares(by_squares):
    model = Spread(by_squares)
    found = taiyi_fx.step_check(model, lambda x, y: F.cross_entropy(model(x), y), *steps.batch())
    lost = [one for one in found if one.kind == "lost_precision"]
    assert [one.module for one in lost] == (["spread"] if by_squares else [])


def test_half_precision_is_left_untried():
    model = steps.net().to(torch.bfloat16)
    found = taiyi_fx.step_check(
        model,
        lambda x, y: F.cross_entropy(model(x), y),
        steps.batch()[0].to(torch.bfloat16),
        steps.batch()[1],
    )
    assert found == []
    assert "precision (a part of it is in half precision)" in found.remark
    assert "gradient" in found.looked_at


@pytest.mark.parametrize("by_squares", [True, False])
def test_noise_of_the_step_is_the_same_in_both(by_squares):
    model = Spread(by_squares)

    def step(x, y):
        return F.cross_entropy(model(x + torch.randn_like(x)), y)

    found = taiyi_fx.step_check(model, step, *steps.batch())
    assert "precision" in found.looked_at
    assert ["lost_precision"] * by_squares == [one.kind for one in found]


def test_other_random_numbers_leave_it_untried():
    model = steps.net()

    def step(x, y):
        return F.cross_entropy(model(x + torch.empty_like(x).normal_()), y)

    found = taiyi_fx.step_check(model, step, *steps.batch())
    assert found == []
    assert "precision (the step draws other random numbers in float64)" in found.remark
