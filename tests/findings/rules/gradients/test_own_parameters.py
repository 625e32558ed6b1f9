"""Parameters beside weights and biases: two zeros that multiply, and what no gradient reaches."""

import pytest
import torch
from torch import nn

import taiyi_fx


class LoRA(nn.Module):
    def __init__(self, begin):
        super().__init__()
        self.base = nn.Linear(6, 6).requires_grad_(False)
        self.A, self.B = nn.Parameter(begin * torch.ones(2, 6)), nn.Parameter(torch.zeros(6, 2))
        self.token = nn.Parameter(torch.ones(6))

    def forward(self, x):
        return self.base(x) + x @ self.A.T @ self.B.T


def found_in(begin, *, is_given=True):
    torch.manual_seed(0)
    model = nn.Sequential(LoRA(begin), LoRA(begin), nn.Linear(6, 1))
    parameters = [p for name, p in model.named_parameters() if is_given or "token" not in name]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(10):
        watched(torch.randn(8, 6)).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    return watched.monitor.findings


def test_two_factors_that_are_both_zero_are_an_alert():
    found = found_in(0.0)[0]
    assert (found.kind, found.severity, found.module) == ("zero_weight", "alert", "0")
    assert found.text == (
        "the parameters 'A' and 'B' of '0' are exactly 0, and so are their gradients; so are "
        "those of 1 more module like it"
    )


def test_one_of_them_may_begin_at_zero():
    assert [one.kind for one in found_in(1.0) if one.severity != "note"] == []


@pytest.mark.parametrize("is_given", [True, False])
def test_what_no_gradient_reaches_is_a_note(is_given):
    unused = [one for one in found_in(1.0, is_given=is_given) if one.kind == "detached"]
    (found,) = unused
    assert found.severity == "note"
    assert found.text == (
        "no gradient reaches the parameter 'token' of '0', which the optimizer has, nor 1 more "
        "like it"
    )


class Scaled(nn.Module):
    """A frozen layer with an adapter whose scale is a quotient of whole numbers."""

    def __init__(self, scale):
        super().__init__()
        self.base, self.scale = nn.Linear(6, 6).requires_grad_(False), scale
        self.lora_a, self.lora_b = (
            nn.Parameter(torch.randn(2, 6)),
            nn.Parameter(torch.zeros(6, 2)),
        )

    def forward(self, x):
        return self.base(x) + x @ self.lora_a.T @ self.lora_b.T * self.scale


@pytest.mark.parametrize("has_head", [True, False])
@pytest.mark.parametrize(("scale", "is_told"), [(4 // 8, True), (4 / 8, False)])
def test_parameters_that_are_multiplied_by_zero_are_named(scale, is_told, has_head):
    torch.manual_seed(0)
    model = nn.Sequential(Scaled(scale), nn.Tanh(), Scaled(scale), nn.Linear(6, 2))
    model[3].requires_grad_(has_head)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 1e-2)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(12):
        watched(torch.randn(8, 6)).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    found = [one for one in watched.monitor.findings if one.kind == "zero_gradient"]
    assert [one.module for one in found] == ["0"] * is_told
    assert all("'lora_a' and 'lora_b' of '0'" in one.text for one in found)
