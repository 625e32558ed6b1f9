"""What is shown: depths, what is expanded, and only what is probed."""

import pytest
import torch
from torch import nn

from taiyi_fx.outline.view import opened, shown
from tests.outline.outlined import Block, Stack, at, leaves, outlined

DEEP = Stack(*(Block() for _ in range(15)))


def boxes(outline, *args, only_probed=False, **options):
    view = shown(outline, opened(outline, *args, **options), only_probed=only_probed)
    return [outline.items[i].label for i in view.boxes]


def test_a_small_model_is_shown_whole():
    outline = outlined(Stack(Block(), Block()))
    assert boxes(outline) == [
        *("x", "stem", "norm", "up", "relu", "add", "norm", "up", "relu", "add", "head", "output")
    ]


def test_of_a_large_one_the_first_block_is_open_and_the_rest_is_one_box():
    assert boxes(outlined(DEEP)) == [
        *("x", "stem", "norm", "up", "relu", "add", "1 … 14", "head", "output")
    ]


def test_a_depth_opens_so_many_levels_of_modules():
    outline = outlined(DEEP)
    assert boxes(outline, 0) == boxes(outline, 1) == ["x", "stem", "blocks", "head", "output"]
    assert boxes(outline, 2) == ["x", "stem", "0 … 14", "head", "output"]
    assert boxes(outline, 3) == boxes(outline)
    assert len(boxes(outline, "full")) == len(leaves(outline)) == 4 + 15 * 4


def test_a_module_to_expand_is_open_with_all_around_it():
    outline = outlined(DEEP)
    assert boxes(outline, 1, expand=["blocks.5"]) == [
        *("x", "stem", "0", "1", "2", "3", "4", "norm", "up", "relu", "add"),
        *("6", "7", "8", "9", "10", "11", "12", "13", "14", "head", "output"),
    ]


def test_what_needs_a_look_is_brought_to_sight():
    outline = outlined(DEEP)
    urgent = ["blocks", "blocks.9", "blocks.9.up", "blocks.9.norm"]
    shown_boxes = boxes(outline, urgent=urgent)
    assert shown_boxes[-7:] == ["10", "11", "12", "13", "14", "head", "output"]
    assert shown_boxes[-11:-7] == ["norm", "up", "relu", "add"]
    assert len(shown_boxes) <= 60
    many = [f"blocks.{i}.up" for i in (11, 9, 10, 3)]
    assert {"3", "8"} <= set(boxes(outline, urgent=many))
    assert {"9", "10", "11"}.isdisjoint(boxes(outline, urgent=many))
    assert boxes(outline, 2, urgent=urgent) == boxes(outline, 2)
    wide = outlined(Stack(*(Block() for _ in range(150))))
    assert boxes(wide, urgent=["blocks.9.up"]) == boxes(wide)


def test_only_what_is_probed_is_left_with_its_edges_joined():
    outline = outlined(DEEP, {"stem": ["OutputRMS"], "blocks.3.up": ["OutputRMS"]})
    is_open = opened(outline, expand=["blocks.3"])
    view = shown(outline, is_open, only_probed=True)
    assert [outline.items[i].module for i in view.boxes] == ["stem", "blocks.3.up"]
    assert [tuple(e[:2]) for e in view.edges] == [view.boxes]
    assert {outline.items[i].label for i in view.clusters} == {"blocks", "3"}


def test_an_edge_that_leaves_a_cluster_is_told_from_one_within():
    outline = outlined(DEEP)
    view = shown(outline, opened(outline))
    crossing = {
        tuple(outline.items[i].label for i in edge[:2]) for edge in view.edges if view.crosses(edge)
    }
    assert crossing == {*(("stem", "norm"), ("stem", "add"), ("add", "1 … 14"), ("1 … 14", "head"))}


def test_several_values_between_two_boxes_are_one_edge():
    class Pair(nn.Module):
        def forward(self, x):
            a, b = x.chunk(2, -1)
            return torch.sin(a) * torch.cos(b)

    outline = outlined(nn.Sequential(nn.Linear(4, 4), Pair()), {"0": ["OutputRMS"]})
    view = shown(outline, {0})
    assert [tuple(e[:2]) for e in view.edges] == [
        (1, 2),
        (2, at(outline, "1")),
        (at(outline, "1"), at(outline, "output")),
    ]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"depth": -1}, ValueError, "depth is 0 or more, not -1"),
        ({"depth": "deep"}, TypeError, "depth is a number of levels, 'auto' or 'full', not 'deep'"),
        ({"depth": True}, TypeError, "not True"),
        ({"expand": "blocks"}, TypeError, r"expand is a list of modules' names, as \['blocks'\]"),
        ({"expand": ["blocks.O"]}, LookupError, "no module 'blocks.O' to expand. Did you mean"),
    ],
)
def test_what_cannot_be_is_refused(options, error, text):
    with pytest.raises(error, match=text):
        opened(outlined(DEEP), **options)


def test_what_is_read_of_the_model_itself_stands_at_a_cluster_around_all():
    outline = outlined(DEEP, {"": ["OutputRMS"]})
    view = shown(outline, opened(outline))
    assert view.clusters[0] == 0
    assert view.homes[0] == -1
    assert {view.homes[i] for i in view.boxes if outline.items[i].parent == 0} == {0}
    assert 0 not in shown(outlined(DEEP), opened(outlined(DEEP))).clusters


def test_only_what_is_probed_holds_an_open_module_with_nothing_probed_in_it():
    outline = outlined(DEEP, {"blocks.3": ["OutputRMS"]})
    view = shown(outline, opened(outline, "full"), only_probed=True)
    assert [outline.items[i].module for i in view.boxes] == ["blocks.3"]
    assert {outline.items[i].label for i in view.clusters}.isdisjoint({"3"})
