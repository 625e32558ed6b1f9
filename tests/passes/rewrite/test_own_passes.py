"""Passes of the user's own: when they act, what they may change, and what is said of a wrong one."""

from __future__ import annotations

import copy
import operator
import pickle

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from torch import nn

import taiyi_fx
from taiyi_fx import MonitorWarning, edit
from tests.models import Case, cases
from tests.test_invariants import assert_same_bits, instrumented, run

READINGS = ["OutputNorm", "OutputGradNorm", ["InputSndNorm", "linear(2, 1)"]]


def same(graph, module):
    return graph


def gelu_for_relu(graph, module):
    for node in graph.find_nodes(op="call_module"):
        if isinstance(module.get_submodule(node.target), nn.ReLU):
            node.op, node.target = "call_function", F.gelu
    return graph


def half(x):
    return x * 0.5


def halved(graph, module):
    """Halves what each linear layer makes, before it is read."""
    for node in graph.find_nodes(op="call_module"):
        if isinstance(module.get_submodule(node.target), nn.Linear):
            with graph.inserting_after(node):
                made = graph.call_function(half, (node,))
            node.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made)
    return graph


def without_relu(graph, module):
    for node in graph.find_nodes(op="call_module"):
        if isinstance(module.get_submodule(node.target), nn.ReLU):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return graph


def mlp(activation=nn.ReLU):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), activation(), nn.Linear(8, 2))


def batches():
    return list(torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(2)))


class Branches(nn.Module):
    """A forward that stays Python around two parts that are graphs."""

    def __init__(self, activation=nn.ReLU):
        super().__init__()
        self.a, self.b = mlp(activation), mlp(activation)

    def forward(self, x):
        return self.a(x) if x.sum() > 0 else self.b(x)


class Mode(nn.Module):
    """Goes another way in evaluation."""

    def __init__(self, activation=nn.ReLU):
        super().__init__()
        self.net = mlp(activation)

    def forward(self, x):
        return self.net(x) if self.training else self.net(x) * 2


@settings(max_examples=40)
@given(cases())
def test_a_pass_that_changes_nothing_leaves_every_bit(case: Case):
    cfg = {nn.Module: READINGS}
    assume(instrumented(case.twin(), cfg).capture.graphs)
    probed = instrumented(case.twin(), cfg, passes=[same])
    assert_same_bits(run(case.twin(), case.batches), run(probed, case.batches))


@pytest.mark.parametrize("cfg", [{}, {"Linear": READINGS}, {nn.Module: [["OutputNorm", "linear(2, 1)"]]}])  # fmt: skip
def test_what_a_pass_makes_runs_at_each_step_and_in_evaluation(cfg):
    probed = taiyi_fx.instrument(mlp(), cfg, passes=[gelu_for_relu])
    assert_same_bits(run(mlp(nn.GELU), batches()), run(probed, batches()))


def test_what_is_read_is_what_the_new_graph_computes():
    probed = taiyi_fx.instrument(mlp(), {"1": ["ForwardOutput"]}, passes=[gelu_for_relu])
    x = torch.randn(5, 4)
    probed(x).sum().backward()
    probed.monitor.track(0)
    read = probed.monitor.records.tensors("1", "ForwardOutput")[0]
    assert torch.equal(torch.as_tensor(read), F.gelu(mlp()[0](x)))


def test_passes_are_applied_in_order():
    model = mlp()
    probed = taiyi_fx.instrument(model, {}, passes=[halved, without_relu])
    x = torch.randn(5, 4)
    assert torch.equal(probed(x), half(model[2](half(model[0](x)))))


def test_a_value_is_read_where_the_pass_left_its_place():
    probed = taiyi_fx.instrument(mlp(), {"0": ["ForwardOutput"]}, passes=[halved])
    x = torch.randn(5, 4)
    probed(x).sum().backward()
    probed.monitor.track(0)
    read = probed.monitor.records.tensors("0", "ForwardOutput")[0]
    assert torch.equal(torch.as_tensor(read), half(mlp()[0](x)))


def test_edits_act_besides():
    model = mlp()
    cfg = {"1": [edit(value=half)]}
    probed = taiyi_fx.instrument(model, cfg, passes=[gelu_for_relu])
    x = torch.randn(5, 4)
    expected = model[2](half(F.gelu(model[0](x))))
    assert torch.equal(probed(x), expected)
    assert torch.equal(probed.eval()(x), expected)


def test_a_call_of_the_model_itself_is_left_alone():
    model = mlp()
    x = torch.randn(5, 4)
    before = model(x)
    probed = taiyi_fx.instrument(model, {"0": READINGS}, passes=[gelu_for_relu])
    assert torch.equal(model(x), before)
    assert not torch.equal(probed(x), before)
    assert torch.equal(model(x), before)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])  # fmt: skip
def test_copies_and_pickles_have_the_passes(copied):
    probed = taiyi_fx.instrument(mlp(), {"Linear": READINGS}, passes=[gelu_for_relu])
    assert_same_bits(run(mlp(nn.GELU), batches()), run(copied(probed), batches()))


@pytest.mark.parametrize("cfg", [{}, {"Linear": READINGS}])
def test_compiled_code_runs_what_a_pass_made(cfg):
    probed = torch.compile(
        taiyi_fx.instrument(mlp(), cfg, passes=[gelu_for_relu]), backend="eager", fullgraph=True
    )
    plain, x = mlp(nn.GELU), torch.randn(5, 4)
    for step in range(3):
        probed.zero_grad()
        plain.zero_grad()
        probed(x).sum().backward()
        plain(x).sum().backward()
        probed.monitor.track(step)
        for made, expected in zip(probed.parameters(), plain.parameters(), strict=True):
            assert torch.equal(made.grad, expected.grad)
    assert torch.equal(probed.eval()(x), plain.eval()(x))


def test_each_graph_of_a_model_that_stays_python_is_given_and_the_rest_is_told():
    given = []

    def notes(graph, module):
        given.append(module)
        return gelu_for_relu(graph, module)

    with pytest.warns(MonitorWarning, match="passes apply to graphs only.*2 graphs") as told:
        probed = taiyi_fx.instrument(Branches(), {"ReLU": ["OutputNorm"]}, passes=[notes])
    assert "the model itself: branches on a tensor" in str(told[0].message)
    assert told[0].filename == __file__
    assert [type(module) for module in given] == [nn.Sequential, nn.Sequential]
    xs = [torch.ones(2, 4), -torch.ones(2, 4)]
    assert_same_bits(run(Branches(nn.GELU), xs), run(probed, xs))


def test_a_part_of_which_nothing_is_due_is_compiled_once():
    class Both(Branches):
        def forward(self, x):
            return self.a(x) + self.b(x) if x.numel() > 0 else x

    cfg = {"a.0": ["OutputNorm"], "b.0": [["OutputNorm", "linear(1, 1000)"]]}
    probed = instrumented(Both(), cfg, passes=[gelu_for_relu])
    assert probed.capture.python.keys() == {""}
    run(probed, [torch.randn(2, 4) for _ in range(6)])
    (graph,) = probed._instrumentation.compiled.installation.dispatchers["b"].graphs
    assert {starts for _, starts in graph.probed} == {()}


def test_training_and_evaluation_have_graphs_of_their_own():
    probed = taiyi_fx.instrument(Mode(), {"net.1": ["OutputNorm"]}, passes=[gelu_for_relu])
    assert len(probed.capture.graphs[""]) == 2
    assert_same_bits(run(Mode(nn.GELU), batches()), run(probed, batches()))


def test_nodes_of_taiyi_fx_say_so():
    seen = []

    def notes(graph, module):
        seen.extend((n.op, n.meta.get("taiyi_fx")) for n in graph.nodes)
        return graph

    taiyi_fx.instrument(mlp(), {"1": ["OutputNorm"]}, passes=[notes])
    assert seen == [
        ("placeholder", None), ("call_module", None), ("call_function", "1.input"),
        ("call_module", None), ("call_function", "1.output"), ("call_module", None), ("output", None),
    ]  # fmt: skip


def test_the_arguments_of_a_call_are_told_too():
    seen = []

    def notes(graph, module):
        seen.extend(n.meta["taiyi_fx"] for n in graph.nodes if "taiyi_fx" in n.meta)
        return graph

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.both = nn.Bilinear(3, 3, 2)

        def forward(self, x):
            return self.both(x, x + 1) + self.both(x, x)

    taiyi_fx.instrument(Two(), {"both": ["OutputNorm"]}, passes=[notes])
    places = [place for place in seen if place != "arguments"]
    assert places == ["both.input", "both.output", "both@1.input", "both@1.output"]
    assert seen.count("arguments") == 6  # one packs, two unpack, for each call


def test_calls_of_functions_that_are_read_keep_their_places():
    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = mlp()

        def forward(self, x):
            return operator.add(self.net(x), 1.0)

    probed = taiyi_fx.instrument(
        Adds(), {operator.add: ["OutputNorm"]}, passes=[gelu_for_relu], capture="whole"
    )
    x = torch.randn(5, 4)
    probed(x).sum().backward()
    probed.monitor.track(0)
    assert probed.monitor.records


def test_diagrams_show_the_graph_that_runs():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = mlp().append(nn.ReLU())

        def forward(self, x):
            return self.block(self.block(x)[:, :1].expand(-1, 4))

    probed = taiyi_fx.instrument(Named(), {"block.0": READINGS}, passes=[halved, without_relu])
    probed(torch.randn(5, 4)).sum().backward()
    probed.monitor.track(0)
    shown = taiyi_fx.diagram(probed).to_dot()
    assert "half" in shown
    assert "ReLU" not in shown


@pytest.mark.parametrize("passes", ["same", same, {same}, None])
def test_passes_are_a_list(passes):
    with pytest.raises(TypeError, match=r"passes is a list of functions .* such as \[my_pass\]"):
        taiyi_fx.instrument(mlp(), {}, passes=passes)


def test_a_pass_is_callable():
    with pytest.raises(TypeError, match=r"passes\[1\] is a function of a graph .*, not 'gelu'"):
        taiyi_fx.instrument(mlp(), {}, passes=[same, "gelu"])


def returns_nothing(graph, module):
    graph.lint()


def fails(graph, module):
    raise KeyError("conv9")


def erases_the_output(graph, module):
    (output,) = graph.find_nodes(op="output")
    graph.erase_node(output)
    return graph


def adds_an_input(graph, module):
    with graph.inserting_before(next(iter(graph.nodes))):
        graph.placeholder("mask")
    return graph


def takes_readings_away(graph, module):
    for node in reversed(graph.nodes):
        if "taiyi_fx" in node.meta:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return graph


def reads_twice(graph, module):
    (output,) = graph.find_nodes(op="output")
    with graph.inserting_before(output):
        for node in list(graph.nodes):
            if "taiyi_fx" in node.meta:
                graph.node_copy(node, lambda n: n)
    return graph


def calls_what_is_not_there(graph, module):
    for node in graph.find_nodes(op="call_module"):
        node.target = "mine"
    return graph


def calls_a_tensor(graph, module):
    for node in graph.find_nodes(op="call_module"):
        node.target = "0.weight"
    return graph


def uses_before_it_is_made(graph, module):
    first, *_, last = graph.find_nodes(op="call_module")
    first.args = (last,)
    return graph


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (returns_nothing, TypeError, "a pass returns the graph to go on with, not None"),
        (fails, KeyError, "conv9"),
        (erases_the_output, ValueError, "a graph needs exactly one output"),
        (adds_an_input, ValueError, r"its inputs are \['mask', 'input'\], but they were \['in"),
        (takes_readings_away, ValueError, "reads or edits are gone: 0.input, 0.output"),
        (reads_twice, ValueError, "reads or edits are there twice: 0.input, 0.output"),
        (calls_what_is_not_there, LookupError, "names 'mine', which the model does not have"),
        (calls_a_tensor, LookupError, "names '0.weight', which the model does not have"),
        (uses_before_it_is_made, RuntimeError, "used before it has been defined"),
    ],
)
def test_a_wrong_pass_is_named_before_training(wrong, kind, message):
    with pytest.raises(kind, match=message) as error:
        taiyi_fx.instrument(mlp(), {"0": READINGS}, passes=[same, wrong])
    notes = getattr(error.value, "__notes__", error.value.args)
    assert f"in the pass {wrong.__name__} of tests" in "\n".join(map(str, notes))


def test_without_a_graph_there_is_nothing_to_pass():
    class Python(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(x) if x.sum() > 0 else x

    with pytest.raises(ValueError, match="no graph to work on: no graph; Python stays in"):
        taiyi_fx.instrument(Python(), {"layer": READINGS}, passes=[same])


def test_a_model_that_has_changed_does_not_run_without_its_passes():
    probed = taiyi_fx.instrument(mlp(), {}, passes=[gelu_for_relu])
    probed[0].register_forward_hook(lambda module, args, output: None)
    with pytest.raises(RuntimeError, match="made of 'the model' cannot run.*instrument it again"):
        probed(torch.randn(5, 4))
