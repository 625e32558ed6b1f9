"""The graph of an instrumented model, to look at, run and edit."""

import operator

import pytest
import torch
from torch import nn

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


def test_what_stayed_python_is_shown_as_one_call_that_does_not_run():
    shown = compiled(Python(), "fc").shown
    (node,) = [n for n in shown.graph.nodes if n.op == "call_function"]
    with pytest.raises(RuntimeError, match="shows a forward that stayed Python"):
        node.target((), {})
    with pytest.raises(TypeError, match="did not become one graph"):
        shown.recompile()


def test_the_model_is_written_without_marks():
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4)
    written = compiled(model, "0").shown.written()
    assert [n.op for n in written.graph.nodes] == ["placeholder", "call_module", "output"]
    assert torch.equal(written(x), model(x))
