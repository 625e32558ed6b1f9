"""The graph of a part as it is written."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.passes.capture import graph_writer as module
from taiyi_fx.passes.capture.marks import enter, leave
from taiyi_fx.passes.capture.values import Flow, Known, Refused
from tests.passes.capture.given import graph_writer_of


def test_an_operation_is_a_node_and_its_value_flows():
    model = nn.Sequential(nn.Linear(4, 4))
    writer = graph_writer_of(model)
    x = Flow(writer.graph.placeholder("x"))
    made = writer.record("call_function", torch.add, (x, Known(1)))
    assert made.node.args == (x.node, 1)
    assert not made.is_tensor
    assert writer.read(model[0], "weight").is_tensor
    assert [n.target for n in writer.graph.find_nodes(op="get_attr")] == ["0.weight"]


def test_a_call_of_a_function_that_is_asked_for_stands_between_marks():
    writer = graph_writer_of(nn.Sequential(), functions=[F.gelu])
    x = Flow(writer.graph.placeholder("x"))
    for _ in range(2):
        writer.record("call_function", F.gelu, (x,))
    marks = [(n.target, n.args[1:]) for n in writer.graph.nodes if n.target in (enter, leave)]
    assert marks == [(mark, ("gelu()", call)) for call in (0, 1) for mark in (enter, leave)]
    assert writer.log.functions == {"gelu()": F.gelu}
    assert writer.log.sites == {"": ["gelu()"]}
    assert writer.log.calls == {"gelu()": 2}


def test_a_call_that_is_told_to_work_in_place_is_noted():
    writer = graph_writer_of(nn.Sequential(), functions=[F.relu])
    x = Flow(writer.graph.placeholder("x"))
    writer.record("call_function", F.relu, (x,), {"inplace": Known(True)})
    assert writer.log.in_place == {"relu()"}


def test_what_is_only_judged_is_not_written():
    writer = graph_writer_of(nn.Sequential(), functions=[F.relu])
    x = Flow(writer.graph.placeholder("x"))
    with writer.silent():
        assert writer.record("call_function", F.relu, (x,)).node is None
    assert len(writer.graph.nodes) == 1
    assert not writer.log.calls


def test_nodes_know_the_calls_of_modules_that_they_are_in():
    model = nn.Sequential(nn.Linear(4, 4))
    writer = graph_writer_of(model)
    for call in range(2):
        with writer.inside(model[0], "0"):
            made = writer.record("call_function", torch.ones, (Known(call),)).node
        assert list(made.meta["nn_module_stack"].values()) == [("0", nn.Linear)]
        assert list(made.meta["nn_module_stack"]) == ["0@1" if call else "0"]
    outside = writer.record("call_function", torch.ones, (Known(2),)).node
    assert outside.meta["nn_module_stack"] == {}


def test_a_module_from_elsewhere_is_refused():
    with pytest.raises(Refused, match="reads a Linear that is not one of its modules"):
        graph_writer_of(nn.Sequential()).name_of(nn.Linear(1, 1))


def test_a_forward_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(module, "_MOST_STEPS", 2)
    writer = graph_writer_of(nn.Sequential())
    writer.count_step()
    writer.count_step()
    with pytest.raises(Refused, match="takes too many steps"):
        writer.count_step()
