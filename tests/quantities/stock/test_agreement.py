"""The gradient that a weight has, beside the one that its layer makes."""

import pytest
import torch
from torch import nn

import taiyi_fx

ASKED = ["WeightGradAgreement", "WeightGradExcess"]


def found(change, layer, x):
    torch.manual_seed(0)
    change(layer)
    model = taiyi_fx.instrument(nn.Sequential(layer), {"0": ASKED})
    model(x).square().mean().backward()
    model.monitor.track(0)
    return [model.monitor.get_output()["0"][name][0] for name in ASKED]


LAYERS = [
    (lambda: nn.Linear(4, 6), torch.randn(5, 3, 4)),
    (lambda: nn.Conv2d(4, 6, 3, groups=2), torch.randn(5, 4, 8, 8)),
    (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), torch.randn(5, 4, 4, 4)),
    (lambda: nn.Embedding(9, 4), torch.randint(0, 9, (5, 3))),
    (lambda: nn.LayerNorm(4), torch.randn(5, 4)),
]


@pytest.mark.parametrize(("made", "x"), LAYERS)
def test_they_agree_where_nothing_comes_between(made, x):
    assert found(lambda layer: None, made(), x) == pytest.approx([1, 1], rel=1e-5)


@pytest.mark.parametrize(("made", "x"), LAYERS)
def test_a_hook_that_turns_and_scales_shows(made, x):
    def change(layer):
        layer.weight.register_hook(lambda g: -3 * g)

    assert found(change, made(), x) == pytest.approx([-1, 3], rel=1e-5)


def test_a_gradient_that_was_not_cleared_shows():
    layer = nn.Linear(4, 4)
    layer.weight.grad = torch.randn(4, 4)
    cosine, excess = found(lambda layer: None, layer, torch.randn(5, 4))
    assert cosine < 0.9
    assert excess > 1.5


def test_a_complex_weight_is_compared_by_both_parts():
    def change(layer):
        layer.weight.register_hook(lambda g: 2 * g)

    layer, x = nn.Linear(3, 2, dtype=torch.complex64), torch.randn(5, 3, dtype=torch.complex64)
    model = taiyi_fx.instrument(nn.Sequential(layer), {"0": ASKED})
    change(layer)
    model(x).abs().square().mean().backward()
    model.monitor.track(0)
    values = [model.monitor.get_output()["0"][name][0] for name in ASKED]
    assert values == pytest.approx([1, 2], rel=1e-5)
