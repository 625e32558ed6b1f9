"""Who feeds whom in what stayed Python: against flows written down by hand."""

import gc
import weakref

import networkx as nx
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import taiyi_fx
from taiyi_fx.passes.flow import contract
from taiyi_fx.passes.flow import observer as flow
from taiyi_fx.passes.flow.contract import JoinNode
from taiyi_fx.passes.runtime.observe import observe

ALL = {"Linear": ["InputSndNorm"]}


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)


def flow_of(forward, *args):
    model = type("Model", (Parts,), {"forward": forward})()
    flow = observe(model, [""], args or (torch.randn(2, 3, 4),), {}).inside["", 0]
    return {(_name(u), _name(v)) for u, v in flow.edges}


def _name(node):
    if isinstance(node, str):
        return node
    if isinstance(node, JoinNode):
        return node.operation
    return node.module + (f"@{node.call}" if node.call else "")


def test_edges_follow_operations_between_modules():
    def forward(self, x):
        r = F.relu(self.a(x))
        return self.b(r) + self.c(r * 2) + x

    inner = {("in", "a"), ("a", "b"), ("a", "c"), ("b", "add"), ("c", "add"), ("add", "out")}
    assert flow_of(forward) == inner  # x takes no part in the gradient
    given = torch.randn(2, 3, 4, requires_grad=True)
    assert flow_of(forward, given) == inner | {("in", "add"), ("add", "add")}


def test_what_is_changed_in_place_comes_from_both():
    def forward(self, x):
        h = self.a(x)
        z = self.b(h)
        z += h
        return self.c(z)

    found = flow_of(forward)
    (join,) = {name for edge in found for name in edge} - {"in", "a", "b", "c", "out"}
    assert found == {("in", "a"), ("a", "b"), ("a", join), ("b", join), (join, "c"), ("c", "out")}


def test_each_call_of_a_shared_module_is_a_node():
    def forward(self, x):
        for _ in range(3):
            x = self.a(x)
        return x

    assert flow_of(forward) == {("in", "a"), ("a", "a@1"), ("a@1", "a@2"), ("a@2", "out")}


def test_a_shared_parameter_is_no_flow():
    def forward(self, x):
        return self.a(x) + F.linear(self.b(x), self.a.weight)

    assert flow_of(forward) == {
        ("in", "a"), ("in", "b"), ("a", "add"), ("b", "add"), ("add", "out")
    }  # fmt: skip


def test_without_gradients_tensors_are_followed_by_identity_and_storage():
    def forward(self, x):
        with torch.no_grad():
            return self.c(self.b(self.a(x)).view(6, 4))

    assert flow_of(forward) == {("in", "a"), ("a", "b"), ("b", "c"), ("c", "out")}


def test_flow_goes_through_checkpoints_of_both_kinds():
    for reentrant in (False, True):

        def forward(self, x, reentrant=reentrant):
            h = self.a(x)
            h = checkpoint(lambda y: self.b(y).relu(), h, use_reentrant=reentrant)
            return self.c(h)

        assert {("in", "a"), ("a", "b"), ("c", "out")} <= flow_of(forward)
        assert (("b", "c") in flow_of(forward)) is not reentrant


def test_structures_are_looked_into():
    def forward(self, batch, *, scale=1.0):
        h = {"h": [self.a(batch["x"][0])], "n": 1}
        return {"out": self.b(h["h"][0]) * scale}

    assert flow_of(forward, {"x": [torch.randn(2, 4)]}) == {("in", "a"), ("a", "b"), ("b", "out")}


class Block(Parts):
    def forward(self, x):
        return x + self.b(self.a(x))


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.blocks = nn.Linear(4, 4), nn.ModuleList([Block(), Block()])

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return x


def test_joins_are_placed_in_the_forward_that_makes_them():
    followed = ["", "blocks.0", "blocks.1"]
    flow = observe(Stack(), followed, (torch.randn(2, 4),), {})
    assert list(flow.inside) == [("", 0)]
    graph = flow.inside["", 0]
    joins = [node for node in graph if isinstance(node, JoinNode)]
    assert [j.scope for j in joins] == [(("", 0), (f"blocks.{i}", 0)) for i in (0, 1)]
    assert [_name(n) for n in graph.predecessors(joins[1])] == ["add", "blocks.1.b"]


class Crosses(Parts):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2)

    def forward(self, x):
        y, memory = self.a(x), self.b(x)
        return y + self.c(self.attention(y, memory, memory)[0])


def test_a_forward_that_calls_no_module_is_a_call_itself():
    flow = observe(Crosses(), ["", "attention"], (torch.randn(2, 3, 4),), {}).inside["", 0]
    assert {(_name(u), _name(v)) for u, v in flow.edges} == {
        ("in", "a"), ("in", "b"), ("a", "attention"), ("b", "attention"), ("attention", "c"),
        ("a", "add"), ("c", "add"), ("add", "out"),
    }  # fmt: skip


class Kept(Parts):
    """Stays Python, with a part that becomes a graph."""

    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x):
        if x.sum() == 0:
            return x
        return self.c(self.block(self.a(x))) + x


def drawn_edges(instrumented, **options):
    graph = taiyi_fx.diagram(instrumented, **options).to_networkx()
    item = dict(graph.nodes(data="item"))
    return {tuple(item[n].module or item[n].label for n in edge) for edge in graph.edges}


WHOLE = {
    ("0", "1.a"), ("1.a", "1.block.0"), ("1.block.0", "1.block.1"), ("1.block.1", "1.c"),
    ("1.c", "add"), ("0", "add"), ("add", "2"),
}  # fmt: skip


def test_the_first_probed_forward_shows_the_flow_inside_a_graph():
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(4, 4), Kept(), nn.Linear(4, 4)), ALL)
    assert not drawn_edges(model) >= WHOLE
    model(torch.randn(2, 4)).sum().backward()
    assert {e for e in drawn_edges(model) if not {"input", "output"} & set(e)} == WHOLE
    with pytest.warns(taiyi_fx.MonitorWarning, match="'1.b': the module was not called"):
        model.monitor.track(0)
    assert list(model.monitor.missing) == [("1.b", "InputSndNorm")]


def test_a_flow_can_be_shown_before_training_and_leaves_no_trace():
    inner = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout())

    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.calls = inner, []

        def forward(self, x):
            self.calls.append(1)
            return self.inner(x)

    model = taiyi_fx.instrument(Root(), ALL)
    x = torch.randn(3, 4)
    before = torch.get_rng_state(), {k: v.clone() for k, v in model.state_dict().items()}
    edges = drawn_edges(model, example_inputs=x)
    assert edges == {
        ("input", "inner.0"), ("inner.0", "inner.1"), ("inner.1", "inner.2"), ("inner.2", "output")
    }  # fmt: skip
    assert drawn_edges(model, example_inputs=(x,)) == edges
    assert drawn_edges(model, example_inputs={"x": x}) == edges
    assert torch.equal(torch.get_rng_state(), before[0])
    assert all(torch.equal(v, before[1][k]) for k, v in model.state_dict().items())
    assert model.calls == []


def test_following_the_flow_changes_nothing_and_keeps_nothing():
    kept = []

    class Root(Kept):
        def forward(self, x):
            with torch.no_grad():
                kept.append(weakref.ref(hidden := self.b(x)))
                y = hidden * 2
            del hidden
            assert kept[-1]() is None
            return super().forward(x + y)

    torch.manual_seed(0)
    plain = Root()
    model = taiyi_fx.instrument(plain, ALL)
    x = torch.randn(2, 4)
    results = []
    for net in (plain, model, model):
        plain.zero_grad()
        net(x).sum().backward()
        results.append([p.grad for p in plain.parameters() if p.grad is not None])
    for other in results[1:]:
        assert all(map(torch.equal, results[0], other))
    gc.collect()


def test_what_stayed_python_has_no_cycles():
    model = taiyi_fx.instrument(nn.Sequential(Kept(), Kept()), ALL)
    model(torch.randn(2, 4)).sum().backward()
    assert nx.is_directed_acyclic_graph(taiyi_fx.diagram(model).to_networkx())


class Odd(torch.autograd.Function):
    """Calls a module in its forward, on a tensor that autograd has no edge for."""

    @staticmethod
    def forward(ctx, x, module):
        with torch.enable_grad():
            return module(x.detach().requires_grad_()).detach()

    @staticmethod
    def backward(ctx, g):
        return g, None


def test_what_cannot_be_followed_does_not_end_the_forward(monkeypatch):
    def fails(value):
        raise AssertionError("no edge")

    class Root(Parts):
        def forward(self, x):
            return self.b(Odd.apply(self.a(x), self.c))

    plain = Root()
    for followed in (contract.nodes_of, fails):
        monkeypatch.setattr(flow, "nodes_of", followed)
        model = taiyi_fx.instrument(plain, ALL)
        x = torch.randn(2, 4)
        assert torch.equal(model(x), plain(x))
        items = dict(taiyi_fx.diagram(model).to_networkx().nodes(data="item")).values()
        said = "its data flow could not be followed: AssertionError('no edge')"
        assert any(said in item.notes for item in items) is (followed is fails)


def test_a_module_that_calls_itself_is_followed_some_way_and_runs_all_of_it():
    class Root(Parts):
        def forward(self, x, times):
            return self.cell(x, times)

    class Cell(Parts):
        def forward(self, x, times):
            x = self.a(x)
            return x if x.isnan().any() or not times else self(x, times - 1)

    plain = Root()
    plain.cell = Cell()
    x = torch.randn(2, 4)
    model = taiyi_fx.instrument(plain, {"cell.a": ["OutputRMS"]})
    assert torch.equal(model(x, 100), plain(x, 100))
    items = dict(taiyi_fx.diagram(model).to_networkx().nodes(data="item")).values()
    assert any("more than 50 calls within each other" in note for i in items for note in i.notes)
