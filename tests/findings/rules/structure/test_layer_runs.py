"""Linear layers with nothing between them, and what a layer returns added to itself."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings.facts.attributes import attributes_of
from taiyi_fx.findings.facts.loss_graph import LossGraph
from taiyi_fx.findings.rules.structure.layer_runs import doubled_outputs
from tests.findings.given import evidence


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


class DropPath(nn.Module):
    """A module of one's own that may hand on what it is given."""

    def forward(self, x):
        return x


class Branched(nn.Module):
    """A layer and a branch, which may be of nothing, beside a function of what it returns."""

    def __init__(self, branch, elsewhere):
        super().__init__()
        self.norm, self.proj, self.mlp = nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.embed, self.head = nn.Linear(8, 8), nn.Linear(8, 1)
        self.branch, self.elsewhere = branch, elsewhere

    def forward(self, x):
        own = self.proj(self.norm(x))
        other = self.embed(x).tanh()
        own = own + (self.branch(own) if self.branch else own)
        return self.head(self.elsewhere(self.mlp(own + other).relu()))


IDLE = [
    nn.Identity(),
    nn.Sequential(),
    nn.Dropout(0),
    nn.Dropout(0.5).eval(),
    nn.Sequential(nn.Identity(), nn.Dropout(0.0)),
    DropPath(),
]


@pytest.mark.parametrize("idle", IDLE, ids=lambda idle: type(idle).__name__)
def test_a_branch_of_nothing_is_none_and_nothing_elsewhere_changes_no_finding(idle):
    assert found_in(Branched(idle, nn.Tanh()), "doubled_output") == []
    (found,) = found_in(Branched(None, idle), "doubled_output")
    assert found.module == "proj"


def test_the_last_layer_of_attention_is_one_with_the_module_around_it():
    class Model(nn.Module):
        def __init__(self, branch):
            super().__init__()
            self.into, self.attn, self.branch = nn.Linear(8, 8), nn.MultiheadAttention(8, 2), branch

        def forward(self, x):
            x = self.into(x)
            x = self.attn(x, x, x)[0]
            return x + self.branch(x) if self.branch else x + x

    assert found_in(Model(nn.Identity()), "doubled_output") == []
    assert len(found_in(Model(None), "doubled_output")) == 1


@pytest.mark.parametrize("order", [(), ("f",), ("f", "g")], ids=["none", "the layer", "both"])
@pytest.mark.parametrize(("other", "count"), [(nn.Identity(), 0), (nn.Tanh(), 1)])
def test_where_it_is_not_known_what_an_identity_is_given_there_is_none(order, other, count):
    known = replace(
        evidence({("", "loss"): 1.0}),
        loss_graphs={"loss": LossGraph(doubled=("f",))},
        attributes=attributes_of({"f": nn.Linear(8, 8), "g": other}),
        order=order,
    )
    is_called = not order or "g" in order
    assert len([*doubled_outputs(known)]) == (count if is_called else 1)
