"""A captured graph, while it may stand in for the model's Python."""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.trace import trace
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.runtime.guarded_graph import GuardedGraph
from taiyi_fx.passes.runtime.run import Run


class Drops(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.factor = nn.Linear(4, 4), 2.0

    def forward(self, x):
        return F.dropout(self.fc(x) * self.factor, 0.5, self.training)


def graphs_of(model):
    found = trace(model, TraceTargets([], evaluation=True)).graphs[""]
    return [GuardedGraph(each, model, SlotTable({}), Run(False), {}) for each in found]


def test_each_mode_has_its_graph_and_it_alone_may_run():
    model = Drops()
    train, evaluation = graphs_of(model)
    assert (train.training, evaluation.training) == (True, False)
    assert train.follows_mode
    assert (train.guards_pass(), evaluation.guards_pass()) == (True, False)
    model.eval()
    assert (train.guards_pass(), evaluation.guards_pass()) == (False, True)
    x = torch.randn(2, 4)
    assert torch.equal(evaluation.function(None)(model, x), model(x))


def test_a_change_of_what_was_read_counts_at_once_and_back_again():
    model = Drops()
    train, _ = graphs_of(model)
    model.factor = 3.0
    assert not train.guards_pass()
    model.factor = 2.0
    assert train.guards_pass()


def test_a_graph_without_the_mode_follows_none():
    (graph,) = graphs_of(nn.Sequential(nn.Linear(4, 4)))
    assert graph.training is None
    assert not graph.follows_mode


class Scales(nn.Module):
    def forward(self, x, /, y=1.0, *, scale=2.0):
        return x * y * scale


CALLS = [
    ((1.0,), {}),
    ((1.0, 2.0), {"scale": 3.0}),
    ((1.0,), {"y": 2.0}),
    ((1.0, 2.0, 3.0), {}),
    ((), {"x": 1.0}),
    ((1.0,), {"z": 1.0}),
    ((), {}),
]


@pytest.mark.parametrize(("args", "kwargs"), CALLS)
def test_it_takes_and_refuses_the_arguments_that_the_forward_does(args, kwargs):
    model = Scales()
    (graph,) = graphs_of(model)
    assert outcome(functools.partial(graph.function(None), model), args, kwargs) == outcome(
        model.forward, args, kwargs
    )


def test_a_required_keyword_may_follow_one_with_a_default():
    class Keywords(nn.Module):
        def forward(self, x, y=1.0, *, z=2.0, scale):
            return x * y * z * scale

    model = Keywords()
    (graph,) = graphs_of(model)
    assert graph.function(None)(model, 1.0, scale=3.0) == model(1.0, scale=3.0)


def outcome(function, args, kwargs):
    try:
        return function(*args, **kwargs)
    except TypeError as error:
        return str(error)


def test_another_graph_is_taken_in_its_place():
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4)
    (graph,) = graphs_of(model)
    other = torch.fx.Graph()
    other.output(other.call_function(torch.neg, (other.placeholder("x"),)))
    graph.rewrite(other)
    assert graph.is_edited
    assert torch.equal(graph.function(None)(model, x), -x)
