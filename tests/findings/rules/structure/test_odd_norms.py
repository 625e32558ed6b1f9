"""Norms of a user's own."""

import pytest
import torch
from torch import nn

import taiyi_fx


class Norm(nn.Module):
    """A norm over the last axis."""

    def __init__(self, power, width=8):
        super().__init__()
        self.power = power
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        scale = (x.var(-1, keepdim=True) + 1e-6) ** self.power
        return (x - x.mean(-1, keepdim=True)) / scale * self.weight + self.bias


class MyLayerNorm(Norm):
    """A norm by its name."""


class Scale(Norm):
    """None by its name."""


def found_in(kind, power, scales=(5.0, 0.2)):
    torch.manual_seed(0)
    layers = [layer for _ in scales for layer in (nn.Linear(8, 8), kind(power))]
    for layer, scale in zip(layers[::2], scales, strict=True):
        nn.init.orthogonal_(layer.weight, scale)
        nn.init.zeros_(layer.bias)
    if power != 0.5:  # what the one before returns is of another size
        layers[2].weight.data *= layers[0].weight.norm() if power > 0.5 else 0.2
    watched = taiyi_fx.instrument(nn.Sequential(*layers, nn.Linear(8, 2)))
    for step in range(10):
        watched(torch.randn(50, 8)).square().mean().backward()
        watched.monitor.track(step)
    return [one for one in watched.monitor.findings if one.kind == "odd_norm"]


def test_norms_that_divide_by_the_variance_are_named():
    (found,) = found_in(MyLayerNorm, 1.0)
    assert found.module == "1"
    assert "divide by the variance" in found.text


def test_norms_that_do_not_divide_are_named():
    (found,) = found_in(MyLayerNorm, 0.0)
    assert "do not divide" in found.text


@pytest.mark.parametrize(("kind", "power"), [(MyLayerNorm, 0.5), (Scale, 1.0)])
def test_norms_that_normalise_and_what_is_none_by_its_name_are_none(kind, power):
    assert found_in(kind, power) == []


@pytest.mark.parametrize(
    ("groups", "size", "is_told"), [(8, 1, True), (4, 1, False), (8, 2, False)]
)
def test_groups_of_one_number_are_told(groups, size, is_told):
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.AdaptiveAvgPool2d(size), nn.GroupNorm(groups, 8)
    )
    watched = taiyi_fx.instrument(model, {"*": ["OutputRMS"]})
    watched(torch.randn(4, 1, 6, 6)).sum().backward()
    watched.monitor.track()
    found = [one for one in watched.monitor.findings if one.kind == "odd_norm"]
    assert [(one.module, one.severity) for one in found] == [("2", "alert")] * is_told


@pytest.mark.parametrize(("shape", "is_told"), [(1, True), ((1, 1), True), (4, False)])
def test_a_layer_norm_of_one_feature_is_told(shape, is_told):
    sizes = (shape,) if isinstance(shape, int) else shape
    watched = taiyi_fx.instrument(
        nn.Sequential(nn.LayerNorm(shape), nn.Flatten()), {"*": ["OutputRMS"]}
    )
    watched(torch.randn(4, 6, *sizes)).sum().backward()
    watched.monitor.track()
    found = [one for one in watched.monitor.findings if one.kind == "odd_norm"]
    assert [(one.module, one.severity) for one in found] == [("0", "alert")] * is_told


class Offset(nn.LayerNorm):
    """Its weight is added to a gain of 1."""

    def forward(self, x):
        return nn.functional.layer_norm(x, self.normalized_shape, 1 + self.weight, self.bias)


def set_to(values):
    """Sets the gains of the first norms of a model."""

    def initialise(model):
        norms = [module for module in model if isinstance(module, nn.LayerNorm)]
        for norm, value in zip(norms, values, strict=False):
            nn.init.normal_(norm.weight, std=0.02) if value is None else norm.weight.data.fill_(
                value
            )

    return initialise


@pytest.mark.parametrize(
    ("kind", "gains", "is_told"),
    [
        (nn.LayerNorm, [None] * 3, True),
        (nn.LayerNorm, [0.05, 0.1, 1.0], True),
        (nn.LayerNorm, [None, 1.0, 1.0], False),
        (nn.LayerNorm, [0.0] * 3, False),
        (nn.LayerNorm, [0.5] * 3, False),
        (Offset, [None] * 3, False),
    ],
)
def test_gains_that_are_initialised_as_weights_are_told(kind, gains, is_told):
    torch.manual_seed(0)
    model = nn.Sequential(*(layer for _ in gains for layer in (nn.Linear(8, 8), kind(8))))
    set_to(gains)(model)
    watched = taiyi_fx.instrument(model, {"*": ["OutputRMS", "ParameterRMS"]})
    for step in range(3):
        watched(torch.randn(16, 8)).square().mean().backward()
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "odd_norm"]
    assert [(one.module, one.severity) for one in found] == [("1", "warning")] * is_told
    if is_told:
        assert "begin with gains of 0.0" in found[0].text
