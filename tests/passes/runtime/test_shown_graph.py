"""The graph of an instrumented model, to look at, run and edit."""

import copy
import operator
import pickle

import pytest
import torch
from torch import fx, nn

from taiyi_fx.passes.capture.marks import enter, leave
from tests.passes.runtime.given import Python, compiled, due, run


def test_it_has_marks_where_probes_are_and_is_a_copy():
    made = compiled(nn.Sequential(nn.Linear(4, 4)), "0")
    shown = made.shown.graph
    assert [n.target for n in shown.nodes if n.op != "placeholder"][:-1] == [enter, "0", leave]
    assert shown is made.shown.graph
    assert shown is not made.installation.dispatchers[""].graphs[0].graph


def test_an_edit_runs_once_it_is_recompiled():
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4)
    made, expected = compiled(model, "0"), model(x)
    graph = made.shown.graph
    (output,) = graph.find_nodes(op="output")
    with graph.inserting_before(output):
        output.args = (graph.call_function(operator.mul, (output.args[0], 2)),)
    made.installation.set_due(due("0"))
    assert torch.equal(run(made, x), expected)
    made.shown.recompile()
    assert torch.equal(run(made, x), 2 * expected)
    assert made.shown.is_edited


def test_what_stayed_python_is_shown_as_one_call():
    model, x = Python(), torch.randn(2, 4)
    shown = compiled(model, "fc").shown
    assert torch.equal(fx.Interpreter(model, graph=shown.graph).run(x), model(x))
    with pytest.raises(TypeError, match="did not become one graph"):
        shown.recompile()
    with pytest.raises(TypeError, match="none to write"):
        shown.written()


def test_the_call_of_what_stayed_python_is_that_of_the_module_it_runs_on():
    model, x = Python(), torch.randn(2, 4)
    graph = compiled(model, "fc").shown.graph
    graph = pickle.loads(pickle.dumps(graph))
    graph.lint()
    made = fx.GraphModule(model, graph)
    copied, expected = copy.deepcopy(made), model(x)
    assert torch.equal(made(x), expected)
    with torch.no_grad():
        model.fc.weight.zero_()
    assert not torch.equal(model(x), expected)
    assert torch.equal(made(x), model(x))
    assert torch.equal(copied(x), expected)
    assert torch.equal(copy.deepcopy(copied)(x), expected)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.scale = nn.Linear(4, 4), 1.0

    def forward(self, x):
        return self.fc(x) * self.scale


@pytest.mark.parametrize("change", ["attribute", "wrapper"])
def test_a_graph_that_the_model_no_longer_computes_is_not_shown(change):
    model, x = Scaled(), torch.randn(2, 4)
    shown = compiled(model, "fc").shown
    before, wrapped = shown.graph, model.forward
    if change == "attribute":
        model.scale = 3.0
    else:
        model.forward = lambda x: 7 * wrapped(x)
    assert shown.graph is not before
    assert torch.equal(fx.Interpreter(model, graph=shown.graph).run(x), model(x))
    with pytest.raises(TypeError, match="or has changed since"):
        shown.recompile()
    model.scale = 1.0
    if change == "wrapper":
        del model.forward
    assert shown.graph is before


def test_the_model_is_written_without_marks():
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4)
    written = compiled(model, "0").shown.written()
    assert [n.op for n in written.graph.nodes] == ["placeholder", "call_module", "output"]
    assert torch.equal(written(x), model(x))
