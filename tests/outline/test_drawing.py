"""The drawing: boxes of calls, of parts that stayed Python, and of modules that are never called."""

import pytest
import torch
from torch import nn

import taiyi_fx
from tests.outline.outlined import at, labels, outlined


def test_shared_modules_are_several_boxes():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return self.fc(torch.relu(self.fc(x)))

    outline = outlined(Shared(), {"fc": ["OutputRMS", "WeightNorm"]})
    calls = [i for i in outline.items if i.class_name == "Linear"]
    assert [(i.label, i.module) for i in calls] == [("fc", "fc"), ("fc (call 2)", "fc@1")]
    assert [len(i.marks.parameters) for i in calls] == [1, 0]


def test_a_module_with_several_names_is_drawn_wherever_it_is_called():
    class Shares(nn.Module):
        def __init__(self):
            super().__init__()
            act = nn.ReLU()
            self.one, self.two = (nn.Sequential(nn.Linear(4, 4), act) for _ in range(2))

        def forward(self, x):
            return self.two(self.one(x)) if x.sum() > 0 else x

    outline = outlined(Shares(), {nn.Linear: ["OutputRMS"]}, torch.full((2, 4), 9.0))
    called = [i.class_name for i in outline.items if i.class_name in ("Linear", "ReLU")]
    assert called == ["Linear", "ReLU", "Linear", "ReLU"]


def test_an_input_that_is_used_only_through_a_part_is_drawn():
    class Doubled(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x, unused=None):
            return x + self.fc(x)

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Doubled()

        def forward(self, x):
            return self.part(x) if x.sum() > 0 else x

    for made in (nn.Sequential(Doubled()), Branches()):
        outline = outlined(made, {Doubled: ["BackwardInput"]}, torch.full((2, 4), 9.0))
        add = next(at(outline, i.label) for i in outline.items if i.label == "add")
        fc = next(at(outline, i.label) for i in outline.items if i.label == "fc")
        into = {edge.target for edge in outline.edges if edge.source not in (add, fc)}
        assert into == {add, fc}


def test_a_module_that_is_never_called_is_there_with_its_parameters():
    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2)

        def forward(self, x):
            return self.attention(x, x, x)[0]

    outline = outlined(Attends(), {"attention.out_proj": ["WeightNorm"]})
    uncalled = outline.items[at(outline, "attention.out_proj")]
    assert [mark.quantity for mark in uncalled.marks.parameters] == ["WeightNorm"]
    assert "it is never called here: only its parameters can be read" in uncalled.notes
    assert not uncalled.is_called


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(4), nn.MultiheadAttention(4, 2)
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        y = self.norm(x)
        return self.head(y + self.attention(y, y, y)[0])


@pytest.mark.parametrize("inputs", [(), (torch.ones(2, 4),)], ids=["before a run", "behind one"])
def test_one_of_the_models_own_stands_in_the_model(inputs):
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.a(x)

    outline = outlined(Unused(), {"*": ["WeightNorm"]}, *inputs)
    assert set(labels(outline)) == {"x", "a", "unused", "output"}


def test_it_stands_in_the_module_that_it_is_a_part_of():
    outline = outlined(Attending(), {"*": ["AttentionEntropy", "OutputRMS"]}, torch.ones(2, 3, 4))
    uncalled = outline.items[at(outline, "out_proj")]
    assert outline.items[uncalled.parent].label == "attention"


def test_attention_of_torch_stands_in_the_flow_with_its_parts():
    outline = outlined(Attending(), {nn.Linear: ["OutputRMS"]}, torch.ones(2, 3, 4))
    attention = at(outline, "attention")
    assert labels(outline, attention) == ["forward", "out_proj"]
    forward, norm, add = (at(outline, label) for label in ("forward", "norm", "add"))
    passed = {(edge.source, edge.target) for edge in outline.edges}
    assert {(norm, forward), (forward, add), (add, at(outline, "head"))} <= passed


def test_a_function_that_is_read_in_python_stands_in_the_flow_of_the_forward_that_calls_it():
    cfg = {"attention": ["AttentionEntropy"], nn.Linear: ["OutputRMS"]}
    outline = outlined(Attending().train(), cfg, torch.ones(2, 3, 4))
    place, read = next((i, x) for i, x in enumerate(outline.items) if x.module.endswith("()"))
    assert outline.items[read.parent].label == "attention"
    assert [mark.quantity for mark in read.marks.forward] == ["AttentionEntropy"]
    passed = {(edge.source, edge.target) for edge in outline.edges}
    assert {(at(outline, "norm"), place), (place, at(outline, "bmm"))} <= passed


def test_a_kernel_of_attention_is_given_queries_keys_and_values():
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.out = (nn.Linear(4, 4) for _ in range(4))
            self.heads = [self.q, self.k, self.v]

        def forward(self, x):
            q, k, v = ([*self.heads][i](x).unflatten(-1, (2, 2)).transpose(1, 2) for i in range(3))
            y = nn.functional.scaled_dot_product_attention(q, k, v)
            return self.out(y.transpose(1, 2).flatten(2))

    cfg = {"": ["AttentionEntropy"], nn.Linear: ["OutputRMS"]}
    outline = outlined(Heads(), cfg, torch.ones(2, 3, 4))
    attention = at(outline, "attention")
    into = [outline.items[e.source].label for e in outline.edges if e.target == attention]
    assert sorted(into) == ["k", "q", "v"]
    (leads_to,) = [e.target for e in outline.edges if e.source == attention]
    assert outline.items[leads_to].label == "out"
    assert "bmm" not in labels(outline)


class Twice(Attending):
    def forward(self, x):
        y = self.norm(x)
        for _ in range(2):
            y = y + self.attention(y, y, y)[0]
        return self.head(y)


def test_each_call_of_what_stayed_python_has_its_functions_and_parts_stand_in_the_first():
    cfg = {"attention": ["AttentionEntropy"], nn.Linear: ["OutputRMS"]}
    outline = outlined(Twice(), cfg, torch.ones(2, 3, 4))
    items = enumerate(outline.items)
    first, second = (i for i, item in items if item.class_name == "MultiheadAttention")
    assert labels(outline, first) == ["attention", "bmm", "out_proj"]
    assert labels(outline, second) == ["attention (call 2)", "bmm"]


class Gate(nn.Module):
    """One graph with two inputs, of which each goes its own way at first."""

    def __init__(self):
        super().__init__()
        self.opened, self.passed = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, by):
        return self.passed(x) * self.opened(by).sigmoid()


class Gated(nn.Module):
    def __init__(self, order):
        super().__init__()
        self.a, self.b, self.gate = nn.Linear(4, 4), nn.Linear(4, 4), Gate()
        self.order = order

    def forward(self, x):
        a, b = self.a(x), self.b(x)
        assert x.isfinite().all()
        return self.order(self.gate, a, b)


@pytest.mark.parametrize(
    "order",
    [
        lambda gate, a, b: gate(a, b),
        lambda gate, a, b: gate(a, by=b),
        lambda gate, a, b: gate(by=b, x=a),
    ],
    ids=["by position", "by name", "in another order"],
)
def test_each_argument_of_a_part_goes_its_own_way(order):
    outline = outlined(Gated(order), {nn.Linear: ["OutputRMS"]}, torch.ones(2, 4))
    passed = {(edge.source, edge.target) for edge in outline.edges}
    a, b = at(outline, "a"), at(outline, "b")
    assert {(a, at(outline, "passed")), (b, at(outline, "opened"))} <= passed
    assert not {(a, at(outline, "opened")), (b, at(outline, "passed"))} & passed


class Pair(nn.Module):
    """One graph with two results."""

    def __init__(self, keeps):
        super().__init__()
        self.p, self.q, self.keeps = nn.Linear(4, 4), nn.Linear(4, 4), keeps

    def forward(self, x, by):
        return x if self.keeps else self.p(x), self.q(by)


@pytest.mark.parametrize("is_python", [False, True], ids=["graph", "python"])
@pytest.mark.parametrize(("keeps", "first"), [(False, "p"), (True, "a")], ids=["made", "handed on"])
def test_each_result_of_a_part_goes_its_own_way(is_python, keeps, first):
    class Taking(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c, self.d = (nn.Linear(4, 4) for _ in range(4))
            self.pair = Pair(keeps)

        def forward(self, x):
            if is_python:
                assert x.isfinite().all()
            p, q = self.pair(self.a(x), self.b(x))
            return self.c(p) + self.d(q)

    outline = outlined(Taking(), {nn.Linear: ["OutputRMS"]}, torch.ones(2, 4))
    into = {
        name: {
            outline.items[e.source].label for e in outline.edges if e.target == at(outline, name)
        }
        for name in "cd"
    }
    assert into == {"c": {first}, "d": {"q"}}


def test_any_number_of_arguments_come_in_by_one_way():
    class Added(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x, *others):
            return self.fc(x) + others[0] * others[1]

    def order(gate, a, b):
        return gate(a, b, a)

    model = Gated(order)
    model.gate = Added()
    outline = outlined(model, {nn.Linear: ["OutputRMS"]}, torch.ones(2, 4))
    into = {outline.items[e.source].label for e in outline.edges if e.target == at(outline, "fc")}
    assert into == {"a"}


def test_a_model_that_stayed_python_is_drawn_once():
    outline = outlined(Attending(), {nn.Linear: ["OutputRMS"]}, torch.ones(2, 3, 4))
    assert [item.class_name for item in outline.items].count("Attending") == 1
    assert {"input", "output", "norm", "attention", "head"} <= set(labels(outline))


def test_a_part_that_stayed_python_holds_what_a_run_has_shown():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.yes, self.no = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.yes(x) if x.sum() > 0 else self.no(x)

    model = nn.Sequential(nn.Linear(4, 4), Branches(), nn.ReLU())
    instrumented = taiyi_fx.instrument(model, {nn.Linear: ["OutputRMS"]})
    before = instrumented.monitor.outline
    assert labels(before, at(before, "1")) == ["yes", "no"]
    instrumented(torch.ones(2, 4) * 100)
    after = instrumented.monitor.outline
    assert after is instrumented.monitor.outline
    assert after.items[at(after, "1")].kind == "python"
    called, uncalled = (i for i, item in enumerate(after.items) if item.parent == at(after, "1"))
    assert "never called" not in "".join(after.items[called].notes)
    assert "never called" in "".join(after.items[uncalled].notes)
