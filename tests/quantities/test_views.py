"""A model that tests if a tensor is a view goes the way that it goes unwatched."""

import copy

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import MonitorWarning
from taiyi_fx.quantities.views import asks_of_views


class Asks(nn.Module):
    def forward(self, x):
        return x * 2 if x._is_view() else x * 3


class AsksInside(nn.Module):
    def forward(self, x):
        return sum(y for y in [x] if y._base is None)


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


def test_what_a_forward_and_its_parts_ask_is_found_in_their_code():
    assert asks_of_views(Asks())
    assert asks_of_views(AsksInside())
    assert asks_of_views(nn.Sequential(nn.Linear(1, 1), Asks()))
    assert not asks_of_views(nn.Sequential(nn.Linear(1, 1), nn.MultiheadAttention(2, 1)))


@pytest.mark.parametrize("view", [True, False])
@pytest.mark.parametrize("named", ["InputSndNorm", "OutputGradSndNorm", "BackwardOutput"])
def test_probes_do_not_change_what_is_a_view(named, view):
    plain = Net(view)
    watched = taiyi_fx.instrument(copy.deepcopy(plain), {kind: [named] for kind in
        (nn.Linear, Asks, nn.Flatten, Net)})  # fmt: skip
    x = torch.randn(5, 4)
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


def test_the_gradient_of_an_input_that_is_asked_about_is_not_read():
    with pytest.raises(taiyi_fx.ConfigError, match="tests if a tensor is a view"):
        taiyi_fx.instrument(Net(False), {"asks": ["BackwardInput"]})
    with pytest.warns(MonitorWarning, match="tests if a tensor is a view"):
        taiyi_fx.instrument(Net(False), {"*": ["BackwardInput"]})
