"""One forward of a copy of a model, followed."""

import random

import torch
from torch import nn

from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.trace import trace
from taiyi_fx.passes.flow.contract import IN, OUT
from taiyi_fx.passes.runtime.observe import observe
from tests.passes.runtime.given import Python


class Draws(Python):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        with torch.enable_grad():
            return self.head(self.norm(self.fc(x))) * random.random() + torch.randn(())


def test_a_forward_is_followed_and_leaves_no_trace():
    model, x = Draws(), torch.randn(3, 4)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    states = random.getstate(), torch.get_rng_state()
    flow = observe(model, [""], (x,), {})
    assert flow.problem is None
    modules = [getattr(node, "module", node) for node in flow.inside["", 0]]
    assert {IN, OUT, "fc", "norm", "head"} <= set(modules)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
    assert not any("forward" in vars(module) for module in model.modules())


def test_graphs_that_stand_in_show_what_their_nodes_make():
    model, x = nn.Sequential(nn.Linear(4, 2), nn.ReLU()), torch.randn(3, 4)
    capture = trace(model, TraceTargets([]))
    flow = observe(model, capture.python, (x,), {}, capture.graphs)
    (nodes,) = flow.nodes.values()
    assert nodes["_0"].outputs == ((3, 2),)
    assert flow.shapes["1", 0].inputs == ((3, 2),)
