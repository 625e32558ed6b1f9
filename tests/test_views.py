"""A model that tests if a tensor is a view goes the way that it goes unwatched."""

import copy

import pytest
import torch
from torch import nn

import taiyi_fx


class Asks(nn.Module):
    def forward(self, x):
        return x * 2 if x._is_view() else x * 3


class Net(nn.Module):
    def __init__(self, view):
        super().__init__()
        self.first, self.asks, self.last = nn.Linear(4, 4), Asks(), nn.Linear(4, 4)
        self.flat, self.view = nn.Flatten(), view

    def forward(self, x):
        x = self.first(x)
        x = self.asks(x.view(-1, 4) if self.view else x)
        x = self.flat(x[:3])
        return self.last(x + 1 if x._is_view() else x)


@pytest.mark.parametrize("view", [True, False])
@pytest.mark.parametrize(
    "named", ["InputSndNorm", "OutputGradSndNorm", "BackwardOutput", "BackwardInput"]
)
def test_probes_do_not_change_what_is_a_view(named, view):
    plain = Net(view)
    watched = taiyi_fx.instrument(copy.deepcopy(plain), {kind: [named] for kind in
        (nn.Linear, Asks, nn.Flatten, Net)})  # fmt: skip
    x = torch.randn(5, 4, requires_grad=True)
    for step in range(3):
        results = plain(x), watched(x)
        assert torch.equal(*results)
        for result in results:
            result.square().sum().backward()
        watched.monitor.track(step)
    for a, b in zip(plain.parameters(), watched.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)
    found = watched.monitor.get_output()
    for name in ("", "first", "asks", "flat", "last"):
        assert list(found[name][named]) == [0, 1, 2], name
