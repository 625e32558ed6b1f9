"""Places for boxes without Graphviz."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taiyi_fx.outline import Edge, Item, Outline
from taiyi_fx.outline.view import shown
from taiyi_fx.pictures.diagram.layered import layout
from tests.pictures.diagram.given import opened_somehow, outlines

DIRECTIONS = ("TB", "LR", "BT", "RL")


def laid_out(outline, is_open, direction):
    view = shown(outline, is_open)
    sizes = {i: (40.0 + i, 20.0) for i in (*view.boxes, *view.clusters)}
    return view, layout(view, sizes, direction)


def overlap(a, b):
    return (
        a.x < b.x + b.width - 1e-6
        and b.x < a.x + a.width - 1e-6
        and a.y < b.y + b.height - 1e-6
        and b.y < a.y + a.height - 1e-6
    )


def within(a, b):
    return (
        b.x <= a.x + 1e-6
        and b.y <= a.y + 1e-6
        and a.x + a.width <= b.x + b.width + 1e-6
        and a.y + a.height <= b.y + b.height + 1e-6
    )


@given(st.data(), st.sampled_from(DIRECTIONS))
@settings(deadline=None)
def test_nothing_overlaps_and_all_is_within_its_cluster(data, direction):
    outline = data.draw(outlines())
    view, found = laid_out(outline, opened_somehow(data.draw, outline), direction)
    assert set(found.places) == set(view.homes)
    for a, b in itertools.combinations(view.homes, 2):
        if view.homes[a] == view.homes[b]:
            assert not overlap(found.places[a], found.places[b])
    for i, home in view.homes.items():
        assert home < 0 or within(found.places[i], found.places[home])
        assert found.places[i].x >= -1e-6
        assert found.places[i].x + found.places[i].width <= found.size[0] + 1e-6
        assert found.places[i].y + found.places[i].height <= found.size[1] + 1e-6


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_chain_goes_the_way_that_is_asked_for(direction):
    items = (Item("module", "model"), *(Item("op", "add", parent=0) for _ in range(3)))
    _, found = laid_out(Outline(items, (Edge(1, 2), Edge(2, 3))), {0}, direction)
    axis = 1 if direction in ("TB", "BT") else 0
    places = [found.places[i][axis] for i in (1, 2, 3)]
    assert places == sorted(places, reverse=direction in ("BT", "RL"))
    assert len(set(places)) == 3


def test_an_edge_that_passes_boxes_by_goes_around_them():
    items = (Item("module", "model"), *(Item("op", "add", parent=0) for _ in range(4)))
    chain = Outline(items, (Edge(1, 2), Edge(2, 3), Edge(3, 4), Edge(1, 4)))
    _, found = laid_out(chain, {0}, "TB")
    assert len(found.ways[1, 4]) == 4
    for x, y in found.ways[1, 4]:
        for i in (2, 3):
            at = found.places[i]
            assert not (at.x <= x <= at.x + at.width and at.y <= y <= at.y + at.height)


def test_a_cycle_of_closed_boxes_is_laid_out():
    items = (Item("module", "model"), Item("op", "a", parent=0), Item("op", "b", parent=0))
    _, found = laid_out(Outline(items, (Edge(1, 2), Edge(2, 1))), {0}, "TB")
    assert found.places[1].y < found.places[2].y
    assert found.ways == {(1, 2): [], (2, 1): []}
