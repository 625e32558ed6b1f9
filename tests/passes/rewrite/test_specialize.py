"""A graph has probes of what is due, and edits always."""

import torch
from torch import nn

from taiyi_fx.passes.ir import Reading, Site
from taiyi_fx.passes.probes.edited import is_edit
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.pipeline import SPECIALIZE, run_passes
from taiyi_fx.passes.rewrite.specialize import specialize
from taiyi_fx.reductions import Norm
from tests.passes.rewrite.given import edited, probed, probes, ran


def test_specialising_keeps_what_is_due_and_nothing_gives_the_plain_graph():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    graph, table = probed(model, ["0", "1"])
    before = probes(graph)
    due = frozenset({("1", Reading(Site("input"), Norm()))})
    some = run_passes((specialize,), graph, Context(model, table, due=due))
    assert probes(some) == {"0.output": ["1.input"]}
    plain = run_passes(SPECIALIZE, graph, Context(model, table))
    assert [n.op for n in plain.nodes] == ["placeholder", "call_module", "call_module", "output"]
    assert probes(graph) == before


def test_specialising_keeps_edits_whatever_is_due():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    graph, table = edited(model, "output")
    graph = run_passes(SPECIALIZE, graph, Context(model, table))
    assert [n.name for n in graph.nodes if is_edit(n)] == ["_1_output_edit"]
    assert not probes(graph)
    x = torch.randn(2, 4)
    assert torch.equal(ran(graph, model, x), -model(x))


class Keyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.b(input=self.a(x))


def test_packs_go_when_no_gradient_needs_them():
    model = Keyword()
    graph, table = probed(model, ["b"])
    assert {n.target.__name__ for n in graph.nodes if callable(n.target)} >= {"pack", "unpack"}
    plain = run_passes(SPECIALIZE, graph, Context(model, table))
    assert [n.op for n in plain.nodes] == ["placeholder", "call_module", "call_module", "output"]
