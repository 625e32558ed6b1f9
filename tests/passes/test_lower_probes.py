"""Probes as compiled code holds them: calls of constants."""

import torch
from torch import nn

from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.trace import trace
from taiyi_fx.passes.ir import Reading, Site, Target
from taiyi_fx.passes.probes.cells import unpacked
from taiyi_fx.passes.probes.slots import SlotTable
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.emit import emit
from taiyi_fx.passes.rewrite.insert_probes import insert_probes, is_probe
from taiyi_fx.passes.rewrite.lower_probes import lower_probes
from taiyi_fx.passes.rewrite.pipeline import run_passes
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
    graph, _ = lowered(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)))
    assert not any(is_probe(node) for node in graph.nodes)
    calls = [n for n in graph.nodes if n.op == "call_function"]
    assert len(calls) == 4
    assert len({id(n.target) for n in calls}) == 1
    assert {type(c) for n in calls for c in constants_in(n.args[1:])} == {str, bool, type(None)}


def test_what_equal_reductions_read_lands_in_the_cells_of_each_slot():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), torch.randn(3, 4)
    graph, table = lowered(model)
    run = emit(graph, {n: m.forward for n, m in model.named_modules()})
    run(model, x).sum().backward()
    run(model, x).sum().backward()
    for reading, slot in table.at("train", "0", 0).items():
        count, (norm,) = unpacked(slot.cells, slot.kinds)
        assert count == 2
        if reading.site.port == "input":
            torch.testing.assert_close(norm.double(), (2 * x.double().square().sum()).sqrt())


def test_cells_given_up_are_not_to_be_found():
    graph, table = lowered(model := nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)))
    run = emit(graph, {n: m.forward for n, m in model.named_modules()})
    run(model, torch.randn(3, 4))
    assert any("_cell_" in name for name in vars(table.board))
    table.drop()
    assert not any("_cell_" in name for name in vars(table.board))
