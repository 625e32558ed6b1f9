"""Outlines as a whole: containers, plumbing, sizes, ranges, and what holds of every model."""

import json

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from taiyi_fx.outline import Outline
from taiyi_fx.outline.view import opened, shown
from taiyi_fx.testing import models
from tests.outline.outlined import Block, Stack, at, labels, leaves, outlined


def test_a_list_of_modules_stands_around_them():
    outline = outlined(Stack(Block(), nn.Linear(4, 4)))
    assert labels(outline) == ["x", "stem", "blocks", "head", "output"]
    blocks = outline.items[at(outline, "blocks")]
    assert (blocks.kind, blocks.class_name, blocks.module) == ("container", "ModuleList", "blocks")


def test_lists_that_take_turns_are_none_and_names_are_longer():
    class Turns(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
            self.b = nn.ModuleList(nn.LayerNorm(4) for _ in range(2))

        def forward(self, x):
            for a, b in zip(self.a, self.b, strict=True):
                x = b(a(x))
            return x

    assert labels(outlined(Turns())) == ["x", "a.0", "b.0", "a.1", "b.1", "output"]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        b, t, d = x.shape
        q = self.q(x).view(b, t, 2, d // 2).transpose(1, 2)
        k = self.k(x).view(b, t, 2, d // 2).transpose(1, 2)
        return torch.softmax(q @ k.transpose(-2, -1) * (d // 2) ** -0.5, -1)


def test_sizes_are_left_out_and_what_rearranges_is_put_together():
    outline = outlined(Attention())
    assert labels(outline) == [
        *("x", "q", "view · transpose", "k", "view · transpose"),
        *("matmul", "mul", "softmax", "output"),
    ]


def test_plumbing_never_closes_a_way_around():
    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            y = x.reshape(-1, 4)  # one way leads through fc, the other past it
            return torch.stack([y, self.fc(y).reshape(-1, 4)]).transpose(0, 1)

    outline = outlined(Around())
    assert [i.label for i in outline.items if i.kind == "plumbing"] == [
        *("reshape", "reshape", "transpose")
    ]
    assert nx.is_directed_acyclic_graph(quotient(outline, {0}))


def test_what_is_probed_or_edited_is_no_plumbing():
    outline = outlined(Attention(), {torch.Tensor.transpose: ["OutputRMS"]})
    probed = [item for item in outline.items if item.marks]
    assert {(item.kind, item.label.partition(" ")[0]) for item in probed} == {("op", "transpose")}


def test_a_level_of_very_many_different_boxes_is_cut_into_stretches():
    outline = outlined(
        nn.Sequential(*(nn.Linear(i + 1, i + 2) for i in range(500))), {"0": ["WeightNorm"]}
    )
    assert len(labels(outline)) <= 48
    assert {i.kind for i in outline.items if i.parent == 0} == {"range"}
    assert sum(item.kind == "module" for item in outline.items) == 501
    assert len(shown(outline, opened(outline)).boxes) <= 60


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
    assert len(labels(after, at(after, "1"))) == 1


def quotient(outline, is_open):
    view = shown(outline, is_open)
    graph = nx.DiGraph()
    graph.add_nodes_from(view.boxes)
    graph.add_edges_from((edge.source, edge.target) for edge in view.edges)
    return graph


@pytest.mark.slow
@given(models(), st.data())
def test_every_outline_is_whole_and_no_choice_of_open_items_makes_a_cycle(model, data):
    outline = outlined(model.make(), None, torch.randn(3, *model.shape))
    items, children = outline.items, outline.children()
    assert all(item.parent < i for i, item in enumerate(items))
    ends = {i for edge in outline.edges for i in edge[:2]}
    assert ends <= set(leaves(outline))
    parents = [i for i, inner in enumerate(children) if inner]
    is_open = {0, *data.draw(st.sets(st.sampled_from(parents)))}
    assert nx.is_directed_acyclic_graph(quotient(outline, is_open))
    assert Outline.from_json(json.loads(json.dumps(outline.to_json()))) == outline


def test_an_outline_survives_json_whatever_the_names():
    model = nn.Sequential()
    for name in ("a\ud800", "</script>", "\u2028", "x" * 1000, "@1", "a@1"):
        model.add_module(name, nn.Linear(2, 2))
    outline = outlined(model)
    assert Outline.from_json(json.loads(json.dumps(outline.to_json()))) == outline
    assert {item.label for item in outline.items} >= {"a\ud800", "@1", "a@1"}


@pytest.mark.parametrize("kind", ["Store", "Parquet"])
def test_a_run_keeps_the_outline(kind, tmp_path):
    writer = getattr(__import__("taiyi_fx.writers", fromlist=[kind]), kind)(tmp_path)
    model = taiyi_fx.instrument(
        Stack(Block(), Block()), {nn.Linear: ["OutputRMS"]}, writers=[writer]
    )
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.outline is None
    model(torch.randn(2, 4)).sum().backward()
    model.monitor.track(0)
    model.monitor.flush()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.outline == model.monitor.outline
    model.monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.outline == model.monitor.outline
