"""DOT text: what is in it, and that names stay text."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taiyi_fx
from taiyi_fx.outline import Edge, Item, Outline
from taiyi_fx.outline.view import View, shown
from taiyi_fx.pictures.diagram import engines
from taiyi_fx.pictures.diagram.dot import quoted, to_dot
from taiyi_fx.pictures.diagram.faces import Face, faces
from tests.pictures.diagram.given import HOSTILE, SAFE, net, opened_somehow, outlines

SVG = "{http://www.w3.org/2000/svg}"


def svg(source):
    return ET.fromstring(engines.render(engines.find_engine(), source, "svg"))


def texts(picture):
    return [(e.text or "").replace("\xa0", " ").strip() for e in picture.iter(f"{SVG}text")]


def drawn(outline, is_open=(0,), direction="TB"):
    view = shown(outline, is_open)
    return to_dot(view, faces(outline, view, {}), direction)


def test_hostile_names_come_out_as_text():
    items = [Item("module", "model")]
    items += [Item("module", name, name, module=name, parent=0, notes=(name,)) for name in HOSTILE]
    picture = svg(drawn(Outline(tuple(items), ())))
    assert set(SAFE) <= set(texts(picture))
    assert not list(picture.iter(f"{SVG}script"))


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_any_name_is_text_in_an_svg_that_parses(data):
    outline = data.draw(outlines(st.text(max_size=60), most=8))
    source = drawn(outline, opened_somehow(data.draw, outline))
    tags = {element.tag for element in svg(source).iter()}
    assert tags <= {f"{SVG}{tag}" for tag in ("svg", "g", "title", "polygon", "path", "text", "polyline", "a")}  # fmt: skip


@given(st.data())
@settings(deadline=None, max_examples=30)
def test_clusters_stand_in_clusters_and_boxes_in_them(data):
    outline = data.draw(outlines(most=12))
    view = shown(outline, opened_somehow(data.draw, outline))
    source = to_dot(view, faces(outline, view, {}))
    homes, way = {}, [-1]
    for line in source.splitlines():
        if found := re.match(r"\s*subgraph cluster_(\d+) {", line):
            homes[int(found[1])] = way[-1]
            way.append(int(found[1]))
        elif re.match(r"\s*}\s*;?$", line) and len(way) > 1:
            way.pop()
        elif found := re.match(r"\s*n(\d+) \[", line):
            homes[int(found[1])] = way[-1]
    assert homes == view.homes


def test_an_empty_name_is_drawn():
    view = View((1,), (), (), {1: -1})
    assert svg(to_dot(view, {1: Face("", "", "#ffffff", "#000000")})) is not None


def test_quoted_text_is_what_was_quoted():
    assert quoted('a"b\\\nc<&') == '"a\\"b\\\\\\nc&lt;&amp;"'


def test_a_model_without_probes_is_drawn():
    picture = taiyi_fx.diagram(net(cfg={}))
    assert "stem" in texts(svg(picture.to_dot()))


def test_shapes_stand_where_an_edge_crosses_a_cluster_and_once_for_each_value():
    outline = Outline(
        (
            Item("module", "model"),
            Item("op", "a", parent=0),
            Item("module", "inner", "Inner", parent=0, module="inner"),
            *(Item("op", name, parent=2) for name in "bcd"),
        ),
        (Edge(1, 3, "2×3"), Edge(1, 4, "2×3"), Edge(3, 5, "4×5"), Edge(4, 5, "6×7")),
    )
    source = drawn(outline, (0, 2))
    assert re.findall(r'label="( [^"]*×[^"]*)"', source) == [" 2×3"]
    assert source.count('tooltip="2×3"') == 2
    assert 'tooltip="4×5"' in source


def test_runs_have_two_borders_and_plumbing_a_dashed_one():
    source = drawn(
        Outline(
            (
                Item("module", "model"),
                Item("rest", "1 … 3", "Block", count=3, parent=0),
                Item("op", "add", parent=1),
                Item("plumbing", "view · transpose", parent=0),
            ),
            (),
        )
    )
    nodes = {
        found[0]: found[1]
        for found in re.findall(r"^\s*(n\d+) \[(.*?)\];", source, re.DOTALL | re.MULTILINE)
    }
    assert "peripheries=2" in nodes["n1"]
    assert "dotted" in nodes["n3"]
    assert "solid" in nodes["n1"]


def test_parts_that_nothing_joins_stand_in_columns():
    items = (Item("module", "model"), *(Item("op", f"a{i}", parent=0) for i in range(10)))
    source = drawn(Outline(items, ()))
    assert len(re.findall(r"n\d+ -> n\d+ .*style=invis", source.replace("\n", " "))) >= 1
    assert source.count("style=invis") == 8


def test_a_box_that_nothing_joins_stands_below_the_first_of_its_module():
    items = (
        Item("module", "model"),
        Item("op", "in", parent=0),
        Item("module", "block", "Block", module="block", parent=0),
        Item("op", "first", parent=2),
        Item("op", "second", parent=2),
        Item("module", "dropout", "Dropout", module="block.dropout", parent=2, is_called=False),
    )
    source = drawn(Outline(items, (Edge(1, 3), Edge(3, 4))), is_open=(0, 2))
    assert re.findall(r"(n\d+) -> (n\d+)\s+\[style=invis\]", source) == [("n3", "n5")]
    assert "Dropout, never called" in source


@pytest.mark.parametrize(("direction", "axis", "sign"), [("TB", 1, 1), ("BT", 1, -1), ("LR", 0, 1), ("RL", 0, -1)])  # fmt: skip
def test_data_flow_the_way_that_is_asked_for(direction, axis, sign):
    items = (Item("module", "model"), *(Item("op", name, parent=0) for name in ("aaa", "bbb", "ccc")))  # fmt: skip
    picture = svg(drawn(Outline(items, (Edge(1, 2), Edge(2, 3))), direction=direction))
    at = {e.text: (float(e.get("x")), float(e.get("y"))) for e in picture.iter(f"{SVG}text")}
    places = [sign * at[name][axis] for name in ("aaa", "bbb", "ccc")]
    assert places == sorted(places)
    assert len(set(places)) == 3
