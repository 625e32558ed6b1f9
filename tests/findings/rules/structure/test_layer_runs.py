"""Linear layers with nothing between them, and what a layer returns added to itself."""

import pytest
import torch
from torch import nn

import taiyi_fx


def found_in(model, kind):
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(model)
    for step in range(3):
        loss = watched(torch.randn(12, 8)).square().mean()
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
    return [found for found in watched.monitor.findings if found.kind == kind]


def layers(act):
    return nn.Sequential(
        *(part for _ in range(5) for part in (nn.Linear(8, 8), act())), nn.Linear(8, 1)
    )


def test_linear_layers_without_activations_are_named():
    (found,) = found_in(layers(nn.Identity), "missing_activation")
    assert (found.severity, found.module) == ("warning", "0")
    assert "'0', '2', '4', '6' and more are one behind the other" in found.text
    assert found_in(layers(nn.Tanh), "missing_activation") == []


class Block(nn.Module):
    def __init__(self, *, is_doubled):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.is_doubled = is_doubled

    def forward(self, x):
        own = self.down(self.up(self.norm(x)).relu())
        return own + (own if self.is_doubled else x)


@pytest.mark.parametrize("count", [1, 3])
def test_a_layer_that_is_added_to_itself_is_named(count):
    model = nn.Sequential(*(Block(is_doubled=True) for _ in range(count)))
    (found,) = found_in(model, "doubled_output")
    assert (found.severity, found.module) == ("warning", "0.down")
    assert ("and that of 2 more likewise" in found.text) == (count == 3)


def test_residual_connections_are_none():
    model = nn.Sequential(*(Block(is_doubled=False) for _ in range(3)))
    assert found_in(model, "doubled_output") == []


class Crossing(nn.Module):
    """A way round that meets what passes, or not."""

    def __init__(self, *, is_met):
        super().__init__()
        self.enter, self.up, self.join = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(16, 1)
        self.is_met = is_met

    def forward(self, x):
        skip = self.enter(x).relu()
        x = self.up(skip)
        return self.join(torch.cat([skip if self.is_met else x, x], 1))


def test_what_is_joined_with_itself_is_named():
    (found,) = found_in(Crossing(is_met=False), "doubled_output")
    assert (found.severity, found.module) == ("warning", "up")
    assert "joined with itself" in found.text
    assert "torch.cat" in found.advice
    assert found_in(Crossing(is_met=True), "doubled_output") == []


class DropPath(nn.Module):
    """A module of one's own that may hand on what it is given."""

    def forward(self, x):
        return x


class Branched(nn.Module):
    """A layer and a branch, which may be of nothing."""

    def __init__(self, branch):
        super().__init__()
        self.norm, self.proj, self.head = nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 1)
        self.branch = branch

    def forward(self, x):
        own = self.proj(self.norm(x))
        own = own + (self.branch(own) if isinstance(self.branch, nn.Module) else own)
        return self.head(own.relu())


IDLE = [
    nn.Identity(),
    nn.Sequential(),
    nn.Dropout(0),
    nn.Dropout(0.5).eval(),
    nn.Sequential(nn.Identity(), nn.Dropout(0.0)),
    DropPath(),
]


@pytest.mark.parametrize("idle", IDLE, ids=lambda idle: type(idle).__name__)
def test_a_branch_of_nothing_is_none(idle):
    assert found_in(Branched(idle), "doubled_output") == []


@pytest.mark.parametrize("branch", [None, nn.Tanh()])
def test_a_branch_of_something_hides_no_doubled_output(branch):
    found = found_in(Branched(branch), "doubled_output")
    assert [one.module for one in found] == ["proj"] * (branch is None)
