"""A graph as functions: one for each set of due readings."""

import pytest
import torch
from torch import nn

from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.runtime.probed_graph import forward_of, own_call
from taiyi_fx.passes.runtime.run import Calls, Run
from tests.passes.runtime.given import due, plan_of


def call_of(layer):
    table, run, calls = SlotTable(plan_of("fc")), Run(False), Calls()
    return own_call("fc", layer, lambda: layer.forward, table, run, calls), table, run, calls


def norm_of(table, call):
    table.measure()
    table.board.held.settle()
    slots = table.at("train", "fc", call)
    return next(float(s.state[0]) for r, s in slots.items() if r.site.port == "output")


def test_each_set_of_due_readings_has_a_function_made_once():
    layer = nn.Linear(4, 4)
    graph, _, run, calls = call_of(layer)
    plain = graph.function("train")
    calls.count = 0
    run.set_due(due("fc"))
    reading = graph.function("train")
    calls.count = 0
    assert reading is graph.function("train")
    assert reading is not plain


def test_a_call_is_what_the_module_is_and_leaves_its_readings():
    layer, x = nn.Linear(4, 4), torch.randn(3, 4)
    graph, table, run, _ = call_of(layer)
    run.set_due(due("fc"))
    y = graph.function("train")(layer, x)
    assert torch.equal(y, layer(x))
    assert norm_of(table, 0) == pytest.approx(y.norm().item())


def test_each_call_of_a_forward_has_slots_of_its_own_and_a_failed_one_none():
    layer, x = nn.Linear(4, 4), torch.randn(3, 4)
    graph, table, run, calls = call_of(layer)
    run.set_due(due("fc"))
    for factor in (1, 2):
        graph.function("train")(layer, factor * x)
    assert calls.count == 2
    assert norm_of(table, 1) == pytest.approx(layer(2 * x).norm().item())
    graph.undo("train")
    assert calls.count == 1
    table.board.held.settle()
    assert table.at("train", "fc", 1).popitem()[1].state is None


def test_the_forward_of_a_module_is_looked_up_without_ours():
    layer = nn.Linear(1, 1)
    assert forward_of(layer) == layer.forward
    layer.forward = own = lambda x: x
    assert forward_of(layer) is own
