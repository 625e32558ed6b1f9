"""Adapters that are frozen with the model that they are to adapt."""

import pytest
import torch
from torch import nn

import taiyi_fx


class Adapted(nn.Module):
    """A linear layer with a product of two small matrices beside it."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(6, 6)
        self.lora_a = nn.Parameter(torch.randn(2, 6))
        self.lora_b = nn.Parameter(torch.zeros(6, 2))

    def forward(self, x):
        return self.base(x) + x @ self.lora_a.T @ self.lora_b.T


def found_in(trained):
    """The findings on adapters, of a model of which the parameters with these names are trained."""
    torch.manual_seed(0)
    model = nn.Sequential(Adapted(), nn.ReLU(), Adapted(), nn.Linear(6, 2))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(any(part in name for part in trained))
    wanted = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(wanted, lr=0.1)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(12):
        watched(torch.randn(5, 6)).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    return [one for one in watched.monitor.findings if one.kind == "frozen_adapters"]


def test_adapters_that_were_frozen_with_the_model_are_named():
    (found,) = found_in(["3."])
    assert (found.severity, found.module) == ("warning", "0")
    assert "'0' and 1 more" in found.text


@pytest.mark.parametrize("trained", [["lora", "3."], ["0.lora"], ["base", "3.", "lora"]])
def test_models_with_an_adapter_that_is_trained_have_none(trained):
    assert found_in(trained) == []
