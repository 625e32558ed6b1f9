"""Insertion, fusion, specialisation, emission: what the graph is after each pass."""

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn

from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.marks import enter, leave
from taiyi_fx.passes.capture.trace import trace
from taiyi_fx.passes.ir import Change, Reading, Site, Target
from taiyi_fx.passes.probes.edited import is_edit
from taiyi_fx.passes.probes.slots import SlotTable
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.emit import emit
from taiyi_fx.passes.rewrite.insert_probes import is_probe
from taiyi_fx.passes.rewrite.pipeline import NOT_LEFT_BY, PROBE, SPECIALIZE, run_pass, run_passes
from taiyi_fx.passes.rewrite.specialize import specialize
from taiyi_fx.passes.rewrite.verify_probes import verify_probes
from taiyi_fx.reductions import Norm

VALUE, GRADIENT = ("input", "output"), ("input_grad", "output_grad")


def plan(*names, ports=VALUE + GRADIENT):
    readings = frozenset(Reading(Site(port), Norm()) for port in ports)
    return {name: Target(name, readings) for name in names}


def probed(model, names, ports=VALUE + GRADIENT, fuse=True):
    table = SlotTable(plan(*names, ports=ports))
    (captured, *_) = trace(model, TraceTargets(names)).graphs[""]
    passes = PROBE if fuse else PROBE[:1]
    return run_passes(passes, captured.graph, Context(model, table)), table


def probes(graph):
    return {n.target.__name__: sorted(f"{s.module}.{s.reading.site}" for s in n.target.slots) for n in graph.nodes if is_probe(n)}  # fmt: skip


def ran(graph, model, x):
    forwards = {n: m.forward for n, m in model.named_modules()}
    return emit(graph, forwards)(model, x)


def test_every_mark_becomes_a_probe_or_goes():
    graph, _ = probed(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), ["0"], fuse=False)
    assert probes(graph) == {"0.input": ["0.input", "0.input_grad"], "0.output": ["0.output", "0.output_grad"]}  # fmt: skip
    assert not [n for n in graph.nodes if n.target in (enter, leave)]


def test_a_probe_of_values_is_not_in_the_path():
    graph, _ = probed(nn.Sequential(nn.Linear(4, 4)), ["0"], ports=VALUE)
    assert all(not node.users for node in graph.nodes if is_probe(node))


def test_an_output_that_is_the_next_modules_input_is_read_once():
    graph, table = probed(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), ["0", "1"])
    assert list(probes(graph)) == ["0.input", "0.output", "1.output"]
    assert probes(graph)["0.output"] == ["0.output", "0.output_grad", "1.input", "1.input_grad"]
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    ran(graph, model, torch.randn(2, 4)).sum().backward()
    first, second = table.at("train", "0", 0), table.at("train", "1", 0)
    assert all(slot.state is not None for slot in {**first, **second}.values())
    outputs = [s.state for r, s in first.items() if r.site.port == "output"]
    inputs = [s.state for r, s in second.items() if r.site.port == "input"]
    assert outputs[0] == inputs[0]


def test_one_input_of_three_modules_is_read_once_and_its_gradients_apart():
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x):
            return self.q(x) + self.k(x) * self.v(x)

    graph, _ = probed(Heads(), ["q", "k", "v"], ports=("input", "input_grad"))
    assert probes(graph) == {
        "q.input": ["k.input", "q.input", "q.input_grad", "v.input"],
        "k.input": ["k.input_grad"],
        "v.input": ["v.input_grad"],
    }


class Changed(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.a, self.b, self.change = nn.Linear(4, 4), nn.Linear(4, 4), change

    def forward(self, x):
        y = self.a(x)
        self.change(y)
        return self.b(y)


def add_one_(y):
    y += 1


CHANGES = {
    "method": lambda y: y.add_(1),
    "view": lambda y: y.view(-1).mul_(2),
    "function": lambda y: F.relu_(y),
    "flag": lambda y: F.relu(y, inplace=True),
    "positional flag": lambda y: F.relu(y, True),
    "out": lambda y: torch.add(y, 1, out=y),
    "operator": add_one_,
    "module": nn.ReLU(inplace=True),
    "user's module": type("Mine", (nn.Module,), {"forward": lambda self, y: y.add_(1)})(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_tensor_that_may_have_changed_in_between_is_read_again(change):
    graph, _ = probed(Changed(change), ["a", "b"], ports=VALUE)
    assert list(probes(graph)) == ["a.input", "a.output", "b.input", "b.output"]


def test_a_view_whose_base_changed_in_between_is_read_again():
    class Base(Changed):
        def forward(self, x):
            h = self.a(x)
            v = h.view(-1, 4)
            y = self.b(v)
            h.mul_(2)
            return y + self.c(v)

    model = Base(None)
    model.c = nn.Linear(4, 4)
    graph, _ = probed(model, ["b", "c"], ports=("input",))
    assert list(probes(graph)) == ["b.input", "c.input"]


@pytest.mark.parametrize("same", [lambda y: y.sum(), lambda y: F.relu(y), nn.Linear(4, 4)])
def test_a_tensor_that_cannot_have_changed_is_read_once(same):
    graph, _ = probed(Changed(same), ["a", "b"], ports=VALUE)
    assert list(probes(graph)) == ["a.input", "a.output", "b.output"]


def test_specialising_keeps_what_is_due_and_nothing_gives_the_plain_graph():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    graph, table = probed(model, ["0", "1"])
    before = probes(graph)
    due = frozenset({("1", Reading(Site("input"), Norm()))})
    some = run_passes((specialize,), graph, Context(model, table, due=due))
    assert probes(some) == {"0.output": ["1.input"]}
    plain = run_passes(SPECIALIZE, graph, Context(model, table))
    assert [n.op for n in plain.nodes] == ["placeholder", "call_module", "call_module", "output"]
    assert probes(graph) == before


def edited(model, at):
    """The graph of two modules that are read, the second of which has an edit too."""
    plans = plan("0", "1")
    plans["1"] = Target("1", plans["1"].readings, (Change(Site(at), torch.neg),))
    table = SlotTable(plans)
    (captured, *_) = trace(model, TraceTargets(plans.keys())).graphs[""]
    return run_passes(PROBE, captured.graph, Context(model, table)), table


@pytest.mark.parametrize("at", ["input", "input_grad"])
def test_no_reading_is_moved_across_an_edit(at):
    found = probes(edited(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), at)[0])
    assert found["0.output"] == ["0.output", "0.output_grad"]
    assert found["1.input"] == ["1.input", "1.input_grad"]


def test_specialising_keeps_edits_whatever_is_due():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    graph, table = edited(model, "output")
    graph = run_passes(SPECIALIZE, graph, Context(model, table))
    assert [n.name for n in graph.nodes if is_edit(n)] == ["_1_output_edit"]
    assert not probes(graph)
    x = torch.randn(2, 4)
    assert torch.equal(ran(graph, model, x), -model(x))


def test_packs_go_when_no_gradient_needs_them():
    model = type("M", (Changed,), {"forward": lambda self, x: self.b(input=self.a(x))})(None)
    graph, table = probed(model, ["b"])
    assert {n.target.__name__ for n in graph.nodes if callable(n.target)} >= {"pack", "unpack"}
    plain = run_passes(SPECIALIZE, graph, Context(model, table))
    assert [n.op for n in plain.nodes] == ["placeholder", "call_module", "call_module", "output"]


def test_emitted_code_calls_each_modules_own_forward():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
    graph, _ = probed(model, ["0", "1", "2"])
    x = torch.randn(3, 4)
    assert torch.equal(ran(graph, model, x), model(x))


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


def test_verification_names_calls_that_never_come_and_gradients_that_cannot():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c, self.never = (nn.Linear(4, 4) for _ in range(4))

        def forward(self, x):
            self.c(x)  # leads nowhere
            return self.b(self.a(x).detach())

    model = Model()
    names = ["a", "b", "c", "never"]
    graph, table = probed(model, names)
    findings = verify_probes(model, {"": graph}, table.plan, {})
    assert set(findings) == {"a", "c", "never"}
    assert "never calls" in findings["never"]
    assert "no gradient can come" in findings["a"]


def test_what_is_changed_in_place_goes_on_under_another_name():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.relu, self.aside = nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4)

        def forward(self, x):
            y = self.fc(x)
            self.relu(y)
            self.aside(y)
            return y

    model = Model()
    graph, table = probed(model, ["fc", "relu", "aside"])
    assert set(verify_probes(model, {"": graph}, table.plan, {})) == {"aside"}


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
