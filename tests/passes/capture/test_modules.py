"""Calls of modules: gone into, or kept as they are."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.marks import enter, leave
from taiyi_fx.passes.capture.modules import (
    is_torch_composite,
    is_torch_leaf,
    is_torchs,
    plain_forward,
)
from taiyi_fx.passes.capture.trace import trace
from taiyi_fx.passes.capture.values import Refused
from tests.passes.capture.given import graph_writer_of


class Leaf(nn.Module):
    def forward(self, x):
        return x * 2


class Derived(nn.Linear):
    pass


class Block(nn.Module):
    def __init__(self, part=None):
        super().__init__()
        self.fc, self.part = nn.Linear(4, 4), part or Leaf()

    def forward(self, x):
        return self.part(self.fc(x))


def graph_of(model, targets=()):
    capture = trace(model, TraceTargets(targets))
    assert capture.is_whole, capture
    return capture.graphs[""][0]


def test_torchs_own_are_told_by_class_and_forward(monkeypatch):
    assert is_torchs(nn.Linear(1, 1))
    assert not is_torchs(Derived(1, 1))
    assert is_torch_leaf(nn.LSTM(1, 1))
    assert not is_torch_leaf(nn.Sequential())
    assert is_torch_composite(nn.TransformerEncoderLayer(4, 1, 4))
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: x)
    assert not is_torchs(nn.Linear(1, 1))


def test_a_module_with_parts_is_gone_into_and_one_without_is_called():
    captured = graph_of(nn.Sequential(Block(), Leaf()))
    assert [n.target for n in captured.graph.find_nodes(op="call_module")] == [
        "0.fc",
        "0.part",
        "1",
    ]
    assert captured.log.inlined == ["", "0"]
    passed = {p.module: (p.inputs, p.outputs) for p in captured.log.inlined_calls}
    assert passed == {"0": (("input_1",), ("_0_part",))}


def test_a_target_stands_between_marks():
    graph = graph_of(Block(), ["part"]).graph
    targets = [n.target for n in graph.nodes if n.op not in ("placeholder", "output")]
    assert targets == ["fc", enter, "part", leave]


def test_a_leaf_of_the_users_own_is_judged_though_it_is_called_as_it_is():
    class Counts(nn.Module):
        def forward(self, x):
            self.calls = 1
            return x

    capture = trace(Block(Counts()), TraceTargets([]))
    assert "changes `self.calls`" in capture.python[""]


def test_each_module_that_is_called_is_relied_on_with_its_class():
    assert graph_of(Block()).guards.modules == {"": Block, "fc": nn.Linear, "part": Leaf}


def hooked(module):
    module.register_forward_hook(lambda *_: None)


def replaced(module):
    module.forward = lambda x: x


def compiled(module):
    module.compile(backend="eager")


@pytest.mark.parametrize(
    ("change", "why"),
    [(hooked, "has hooks"), (replaced, "was replaced on the instance"), (compiled, "is compiled")],
)
def test_a_call_that_does_something_besides_is_refused(change, why):
    model = Block()
    change(model.part)
    with pytest.raises(Refused, match=why):
        plain_forward(graph_writer_of(model), model.part)


class Takes(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        return self.part([x])


def test_a_list_that_is_handed_to_a_part_shows_what_the_part_does_to_it():
    class Adds(nn.Module):
        def forward(self, found):
            found.append(found[0] * 2)
            return found

    capture = trace(Takes(Adds()), TraceTargets([]))
    assert capture.is_whole
    handed_on = trace(Takes(nn.Identity()), TraceTargets([]))
    assert "passes a list or dictionary to 'part'" in handed_on.python[""]


def test_a_method_of_a_class_that_is_no_function_is_no_forward():
    class Held(nn.Module):
        forward = torch.relu

    assert "has no forward of its own" in trace(Block(Held()), TraceTargets([])).python[""]


class Strange(Leaf):
    def __getattr__(self, name):
        return super().__getattr__(name)


class Calls(Leaf):
    def __call__(self, x):
        return super().__call__(x)


class CallsAnew(Leaf):
    def _call_impl(self, x):
        return super()._call_impl(x)


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (Strange(), "has a __getattr__ of its own"),
        (Calls(), "has a __call__ of its own"),
        (CallsAnew(), "has a _call_impl of its own"),
        (nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), "is parametrized"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_class_that_answers_in_its_own_way_stays_python(part, why):
    assert why in trace(Block(part), TraceTargets([])).python[""]


@pytest.mark.parametrize("name", ["__call__", "_call_impl"])
def test_where_the_call_of_all_modules_is_replaced_parts_are_called(monkeypatch, name):
    called, torchs = [], getattr(nn.Module, name)

    def told(self, *args, **kwargs):
        called.append(type(self))
        return torchs(self, *args, **kwargs)

    monkeypatch.setattr(nn.Module, name, told)
    model = nn.Sequential(Block(nn.Linear(4, 4)), nn.ReLU())
    assert f"nn.Module.{name} that is not torch's" in trace(model, TraceTargets([])).python[""]
    instrumented = taiyi_fx.instrument(model, {"Linear": ["OutputRMS"]})
    called.clear()
    expected = model(torch.ones(2, 4))
    plain = [*called]
    called.clear()
    assert torch.equal(instrumented(torch.ones(2, 4)), expected)
    assert called == plain
    instrumented.monitor.track(0)


def test_a_graph_module_is_gone_into_as_its_call_is_that_of_modules():
    model = torch.fx.symbolic_trace(nn.Sequential(Block(nn.Linear(4, 4)), nn.ReLU()))
    assert trace(model, TraceTargets([])).is_whole
    instrumented = taiyi_fx.instrument(model, {"Linear": ["OutputRMS"]})
    x = torch.ones(2, 4)
    assert torch.equal(instrumented(x), model(x))
    linear = model.get_submodule("0.part")
    (node,) = [n for n in model.graph.nodes if n.target == "0.part"]
    with model.graph.inserting_after(node):
        again = model.graph.call_module("0.part", (node,))
    node.replace_all_uses_with(again, lambda user: user is not again)
    before = instrumented(x)
    instrumented.monitor.track(0)
    model.recompile()
    assert torch.equal(instrumented(x), model(x))
    assert not torch.equal(instrumented(x), before)
    instrumented.monitor.track(1)
    values = linear(model.get_submodule("0.fc")(x))
    for name, made in (("0.part", values), ("0.part@1", linear(values))):
        recorded = instrumented.monitor.get_output()[name]["OutputRMS"][1]
        assert recorded == pytest.approx(made.square().mean().sqrt().item(), rel=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_script_is_not_gone_into():
    script = torch.jit.script(Leaf())
    assert "is a script module" in trace(Block(script), TraceTargets([])).python[""]
