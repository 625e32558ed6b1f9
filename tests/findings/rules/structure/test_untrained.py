"""Frozen backbones that nobody has trained."""

import pytest
import torch
from torch import nn

import taiyi_fx


def found_in(*layers, head=None, steps=12, prepare=lambda backbone: None, each_step=None):
    """The findings on a backbone that is prepared, frozen, and has a head of its own."""
    torch.manual_seed(0)
    backbone = nn.Sequential(*(layer() for layer in layers))
    prepare(backbone)
    backbone.requires_grad_(False)
    model = nn.Sequential(backbone, head or nn.Linear(8, 2))
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(steps):
        watched(torch.randn(5, 8)).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
        if each_step:
            each_step(backbone)
    return [one for one in watched.monitor.findings if one.kind == "untrained_backbone"]


def linear():
    return nn.Linear(8, 8)


def of_zeros():
    """A layer of other weights, whose bias begins at 0."""
    layer = nn.Linear(8, 8)
    nn.init.kaiming_normal_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def norm():
    return nn.LayerNorm(8)


def train(backbone):
    """As a training leaves parameters."""
    for parameter in backbone.parameters():
        parameter.data.add_(0.2 * torch.randn_like(parameter))


@pytest.mark.parametrize(
    "layers",
    [
        (linear, linear, linear),
        (of_zeros, nn.ReLU, of_zeros, nn.ReLU, of_zeros),
        (norm, linear) * 2,
    ],
    ids=["weights of torch", "biases of zero", "norms"],
)
def test_a_frozen_backbone_as_it_was_made_is_named(layers):
    (found,) = found_in(*layers)
    assert found.module == "0.0"
    assert found.severity == "warning"
    assert "Load the trained weights" in found.advice


def test_a_backbone_that_was_trained_is_none():
    assert found_in(linear, norm, linear, prepare=train) == []


def test_a_backbone_of_which_one_layer_was_trained_is_none():
    assert found_in(linear, linear, linear, prepare=lambda one: train(one[1])) == []


def test_few_random_features_are_none():
    assert found_in(linear, linear) == []


def test_what_is_trained_before_it_too_is_none():
    class Prompted(nn.Sequential):
        pass

    torch.manual_seed(0)
    first = nn.Linear(8, 8)
    frozen = nn.Sequential(linear(), linear(), linear()).requires_grad_(False)
    model = Prompted(first, frozen)
    optimizer = torch.optim.SGD(first.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(12):
        watched(torch.randn(5, 8)).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
    assert "untrained_backbone" not in {one.kind for one in watched.monitor.findings}


class Taught(nn.Module):
    """A student behind a teacher that it does not depend on."""

    def __init__(self):
        super().__init__()
        self.teacher = nn.Sequential(linear(), linear(), linear()).requires_grad_(False)
        self.student = nn.Sequential(linear(), linear(), linear())

    def forward(self, x):
        return self.teacher(x), self.student(x)


@pytest.mark.parametrize("follows", [False, True])
def test_a_teacher_beside_what_is_trained_is_none(follows):
    torch.manual_seed(0)
    model = Taught()
    optimizer = torch.optim.SGD(model.student.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(12):
        told, made = watched(torch.randn(5, 8))
        (told - made).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
        pairs = zip(model.teacher.parameters(), model.student.parameters(), strict=True)
        for own, other in pairs if follows else ():
            own.data.lerp_(other.data, 0.1)
    assert "untrained_backbone" not in {one.kind for one in watched.monitor.findings}


def test_a_backbone_that_follows_others_is_none():
    found = found_in(linear, linear, linear, each_step=lambda one: one[0].weight.data.mul_(0.9))
    assert found == []


@pytest.mark.parametrize(
    ("rate", "prepare", "count"),
    [(2e-5, None, 1), (1e-3, None, 0), (2e-5, train, 0)],
    ids=["as made", "from the start", "trained before"],
)
def test_a_rate_for_tuning_of_what_nobody_has_trained_is_a_note(rate, prepare, count):
    torch.manual_seed(0)
    model = nn.Sequential(*(layer() for layer in (of_zeros, norm) * 3), linear())
    if prepare:
        prepare(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(130):
        watched(torch.randn(5, 8)).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    found = [one for one in watched.monitor.findings if one.kind == "untrained_backbone"]
    assert [one.severity for one in found] == ["note"] * count
