"""A pass that leaves a broken graph is named."""

import pytest
from torch import fx, nn

from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.trace import trace
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.pipeline import NOT_LEFT_BY, PROBE, run_pass, run_passes
from tests.passes.rewrite.given import plan


def test_a_failing_pass_is_named():
    def breaks(graph):
        raise KeyError("x")

    with pytest.raises(KeyError) as error:
        run_pass(breaks, fx.Graph())
    notes = getattr(error.value, "__notes__", error.value.args)
    assert "in the pass breaks of tests" in "\n".join(map(str, notes))


def test_a_lint_after_each_pass_catches_a_broken_graph():
    def breaks(graph):
        nodes = list(graph.nodes)
        nodes[-1].prepend(nodes[0])
        return graph

    graph = fx.symbolic_trace(nn.Sequential(nn.ReLU(), nn.ReLU())).graph
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        run_pass(breaks, graph)


def test_a_pass_that_leaves_what_it_must_not_is_named(monkeypatch):
    def leaves_marks(graph, context):
        return graph

    model = nn.Sequential(nn.Linear(4, 4))
    (captured, *_) = trace(model, TraceTargets(["0"])).graphs[""]
    monkeypatch.setitem(NOT_LEFT_BY, leaves_marks, NOT_LEFT_BY[PROBE[0]])
    with pytest.raises(AssertionError, match="is a mark") as error:
        run_passes([leaves_marks], captured.graph, Context(model, SlotTable(plan("0"))))
    notes = getattr(error.value, "__notes__", error.value.args)
    assert "in the pass leaves_marks" in "\n".join(map(str, notes))
