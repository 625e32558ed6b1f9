"""Branches that add nothing."""

import pytest
import torch
from torch import nn

import taiyi_fx


class Block(nn.Module):
    """A branch whose output is added times a number."""

    def __init__(self, scale, *, is_trained):
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(8), nn.Linear(8, 8)
        self.scale = nn.Parameter(torch.tensor(scale)) if is_trained else scale

    def forward(self, x):
        return x + self.scale * self.fc(self.norm(x))


def found_in(scale, *, is_trained=False):
    torch.manual_seed(0)
    blocks = nn.Sequential(*(Block(scale, is_trained=is_trained) for _ in range(3)))
    model = nn.Sequential(nn.Linear(8, 8), blocks, nn.LayerNorm(8), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(20):
        watched(torch.randn(16, 8)).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    return [one for one in watched.monitor.findings if one.kind == "idle_branch"]


def test_branches_that_add_next_to_nothing_are_named():
    (found,) = found_in(1e-6)
    assert (found.module, found.severity) == ("1", "warning")
    assert "the branches add next to nothing" in found.text


@pytest.mark.parametrize(("scale", "is_trained"), [(0.1, False), (1.0, False), (1e-6, True)])
def test_branches_that_add_or_are_to_grow_are_none(scale, is_trained):
    assert found_in(scale, is_trained=is_trained) == []
