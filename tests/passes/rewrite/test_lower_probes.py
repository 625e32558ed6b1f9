"""Probes as compiled code holds them: calls of constants."""

import torch
from torch import nn
from torch._guards import TracingContext, tracing

from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.trace import trace
from taiyi_fx.passes.ir import Reading, Site, Target
from taiyi_fx.passes.probes.compiled import (
    end_forward,
    read_gradient,
    read_gradients,
    read_value,
    read_values,
)
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.emit import emit
from taiyi_fx.passes.rewrite.insert_probes import insert_probes, is_probe
from taiyi_fx.passes.rewrite.lower_probes import lower_probes
from taiyi_fx.passes.rewrite.pipeline import SPECIALIZE, probe_graph, run_passes
from taiyi_fx.reductions import Norm

PORTS = ("input", "output", "output_grad")


def lowered(model):
    readings = frozenset(Reading(Site(port), Norm()) for port in PORTS)
    table = SlotTable({"0": Target("0", readings), "2": Target("2", readings)})
    (captured, *_) = trace(model, TraceTargets(["0", "2"])).graphs[""]
    context = Context(model, table, is_compiled=True)
    return run_passes([insert_probes, lower_probes], captured.graph, context), table


def constants_in(value):
    parts = [c for part in value for c in constants_in(part)] if type(value) is tuple else [value]
    return [part for part in parts if not isinstance(part, torch.fx.Node)]


def test_a_lowered_probe_is_a_call_of_constants():
    graph, table = lowered(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)))
    assert not any(is_probe(node) for node in graph.nodes)
    here, *calls = [n for n in graph.nodes if n.op == "call_function"]
    with tracing(TracingContext(None)):
        assert here.target()[:3] == (table.board, table.board.key, False)
    assert [n.target for n in calls] == [read_value, read_value, read_gradient] * 2
    assert all(n.args[0] is here for n in calls)
    assert {type(c) for n in calls for c in constants_in(n.args[2:])} == {str, int, type(None)}


def calls_for(model, *, names):
    readings = frozenset(Reading(Site(port), Norm()) for port in PORTS)
    table = SlotTable({name: Target(name, readings) for name in names})
    (captured, *_) = trace(model, TraceTargets(names)).graphs[""]
    due = frozenset((name, reading) for name in names for reading in readings)
    probed = probe_graph(captured.graph, Context(model, table))
    graph = run_passes(SPECIALIZE, probed, Context(model, table, due=due, is_compiled=True))
    plural = (read_values, read_gradients)
    calls = [node for node in graph.nodes if node.target in (*plural, read_value, read_gradient)]
    return [(n.target, len(n.args[1]) if n.target in plural else 1) for n in calls]


def test_what_nothing_changes_is_read_with_what_follows_it():
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    calls = calls_for(model, names=["0", "1", "2", "3"])
    # The last output goes to the caller, who may change it in place.
    assert calls == [(read_gradient, 1), (read_values, 5), (read_gradients, 3)]


def test_no_reading_waits_for_long():
    names = [str(i) for i in range(40)]
    calls = calls_for(nn.Sequential(*(nn.Linear(4, 4) for _ in names)), names=names)
    assert [n for target, n in calls if target in (read_value, read_values)] == [8, 8, 8, 8, 8, 1]


def test_no_reading_waits_across_code_that_may_be_split_or_change_it():
    class Between(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.b(torch.softmax(self.a(x), -1))

    calls = calls_for(Between(), names=["a", "b"])
    assert calls == [
        (read_values, 2),
        (read_gradients, 1),
        (read_gradient, 1),
        (read_values, 2),
    ]


def test_a_graph_in_which_nothing_is_due_stays_as_it_is():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    (captured, *_) = trace(model, TraceTargets(["0"])).graphs[""]
    table = SlotTable({"0": Target("0", frozenset())})
    context = Context(model, table, is_compiled=True)
    graph = run_passes([insert_probes, lower_probes], captured.graph, context)
    assert [n.op for n in graph.nodes] == ["placeholder", *["call_module"] * 3, "output"]


def test_what_equal_reductions_read_lands_in_the_slots_of_each():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), torch.randn(3, 4)
    table, run = compiled(model)
    run(x).sum().backward()
    table.board.take_left()  # as at the end of each forward
    run(x).sum().backward()
    table.board.measure()
    table.board.held.settle()
    for reading, slot in table.at("train", "0", 0).items():
        (norm,) = slot.state
        if reading.site.port == "input":
            torch.testing.assert_close(norm.double(), (2 * x.double().square().sum()).sqrt())
        assert norm > 0


def test_what_forwards_leave_without_python_between_them_is_merged_where_it_lies():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), torch.randn(3, 4)
    table, run = compiled(model, is_within=True)
    for _ in range(3):
        run(x).sum().backward()
    table.board.measure()
    table.board.held.settle()
    (norm,) = next(
        slot.state for r, slot in table.at("train", "0", 0).items() if r.site.port == "input"
    )
    torch.testing.assert_close(norm.double(), (3 * x.double().square().sum()).sqrt())


def test_what_is_given_up_is_not_to_be_found():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    table, run = compiled(model)
    run(torch.randn(3, 4)).sum().backward()
    table.drop()
    table.board.measure()
    table.board.held.settle()
    assert all(slot.state is None for slot in table.at("train", "0", 0).values())


def compiled(model, *, is_within=False):
    graph, table = lowered(model)
    forward = emit(graph, {n: m.forward for n, m in model.named_modules()})
    board = table.board

    def run(x):
        board.is_within = is_within
        y = forward(model, x)
        end_forward(board)
        return y

    return table, torch.compile(run, backend="aot_eager", fullgraph=True)
