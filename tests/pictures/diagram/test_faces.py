"""What a shown item looks like."""

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from taiyi_fx.outline import SIDES, Item, Mark, Marks, Outline
from taiyi_fx.outline.view import shown
from taiyi_fx.pictures.diagram.colours import EDITED, PROBED, STATES
from taiyi_fx.pictures.diagram.faces import Count, Line, faces, shortened, signed
from taiyi_fx.pictures.diagram.latest import Latest
from tests.pictures.diagram.given import opened_somehow, outlines


def way(outline, i):
    while i >= 0:
        yield i
        i = outline.items[i].parent


def one(item, values=None):
    outline = Outline((Item("module", "model"), dataclasses.replace(item, parent=0)), ())
    return faces(outline, shown(outline, {0}), values or {})[1]


@given(st.data())
@settings(deadline=None)
def test_every_part_is_within_exactly_one_shown_box(data):
    outline = data.draw(outlines())
    view = shown(outline, opened_somehow(data.draw, outline))
    parents = {item.parent for item in outline.items}
    for leaf in range(len(outline.items)):
        if leaf not in parents:
            assert len(set(view.boxes).intersection(way(outline, leaf))) == 1


@given(st.data())
@settings(deadline=None)
def test_edges_join_two_different_boxes_and_none_is_lost(data):
    outline = data.draw(outlines())
    view = shown(outline, opened_somehow(data.draw, outline))
    home = {i: next(b for b in way(outline, i) if b in view.boxes) for e in outline.edges for i in e[:2]}  # fmt: skip
    expected = {(home[a], home[b]) for a, b, _ in outline.edges if home[a] != home[b]}
    assert {edge[:2] for edge in view.edges} == expected
    assert len(view.edges) == len(expected)


@given(st.data())
@settings(deadline=None)
def test_the_counts_of_a_closed_box_are_what_is_within_beside_its_own(data):
    outline = data.draw(outlines())
    parents = {item.parent for item in outline.items}
    view = shown(outline, opened_somehow(data.draw, outline))
    alerts = {(item.module, "Out0"): Latest("1", "alert") for item in outline.items}
    found = faces(outline, view, alerts)
    for box in parents.intersection(view.boxes):
        within = [x for i, x in enumerate(outline.items) if i != box and box in way(outline, i)]
        counts = {count.kind: int(count.text.split()[1]) for count in found[box].counts}
        for kind in (*SIDES, "edits"):
            assert counts.get(kind, 0) == sum(len(getattr(item.marks, kind)) for item in within)
        assert counts.get("alert", 0) == sum(bool(item.marks.forward) for item in within)


def test_a_closed_box_has_the_values_of_its_module():
    block = Item("module", "block", "B", "block", parent=0, marks=Marks((Mark("OutputRMS", ""),)))
    parts = (Item("module", "net"), block, Item("module", "fc", "Linear", "block.fc", parent=1))
    outline = Outline(parts, ())
    known = {("block", "OutputRMS"): Latest("0.5")}
    face = faces(outline, shown(outline, {0}), known)[1]
    assert face.badges[0].lines == (Line("OutputRMS 0.5", "ok"),)


def test_a_probe_with_nothing_unusual_has_a_calm_border():
    item = Item("module", "fc", "Linear", module="fc", marks=Marks(forward=(Mark("RMS", ""),)))
    assert one(item, {("fc", "RMS"): Latest("4.20")}).border == PROBED
    assert one(item, {("fc", "RMS"): Latest("nan", "alert")}).border == STATES["alert"]


def test_a_badge_has_a_line_for_each_quantity_with_its_value():
    marks = Marks(forward=(Mark("OutputRMS", ""), Mark("InputMean", "every(2)")))
    item = Item("module", "fc", "Linear", module="a.fc", marks=marks)
    face = one(item, {("a.fc", "OutputRMS"): Latest("4.20", "warn", "up")})
    (badge,) = face.badges
    assert badge.lines == (Line("OutputRMS 4.20 ↑", "warn"), Line("InputMean"))
    assert face.border == STATES["warn"]
    assert face.is_bold
    assert face.kinds == {"forward", "warn"}
    assert face.tooltip.splitlines() == [
        "a.fc",
        "▼ OutputRMS: 4.20 (warn, ten times its median or more)",
        "▼ InputMean, every(2)",
    ]


def test_more_than_three_lines_are_counted_and_what_needs_a_look_comes_first():
    marks = Marks(forward=tuple(Mark(f"Q{i}", "") for i in range(6)))
    item = Item("module", "fc", module="fc", marks=marks)
    (badge,) = one(item, {("fc", "Q4"): Latest("nan", "alert")}).badges
    assert badge.lines == (Line("Q4 nan !", "alert"), Line("Q0"), Line("+ 4 more"))
    assert badge.colours == [STATES["alert"], "#0f766e", "#0f766e"]
    (three,) = one(dataclasses.replace(item, marks=Marks(forward=marks.forward[:3]))).badges
    assert [line.text for line in three.lines] == ["Q0", "Q1", "Q2"]


def test_edits_alone_have_a_border_of_their_own():
    face = one(Item("module", "fc", marks=Marks(edits=("output value · half",))))
    assert face.border == EDITED
    assert not face.is_probed
    assert face.badges[0].lines == (Line("output value · half"),)


def test_a_rest_says_of_what_its_structure_is_and_has_a_double_border():
    marks = Marks(forward=(Mark("Q", ""),))
    outline = Outline(
        (
            Item("module", "model"),
            Item("fold", "0 … 3", "Block", parent=0, count=4),
            Item("module", "0", "Block", parent=1, module="0", marks=marks),
            Item("rest", "1 … 3", "Block", parent=1, count=3),
            *(Item("module", str(i), "Block", parent=3, module=str(i), marks=marks) for i in (1, 2, 3)),
        ),
        (),
    )  # fmt: skip
    values = {("2", "Q"): Latest("nan", "alert"), ("3", "Q"): Latest("1.0", "warn")}
    rest = faces(outline, shown(outline, {0, 1}), values)[3]
    assert (rest.label, rest.quiet, rest.is_double) == ("1 … 3", "Block × 3", True)
    assert rest.counts == (
        Count("forward", "▼ 3"), Count("alert", "! 1 alert"), Count("warn", "~ 1 warning")
    )  # fmt: skip
    assert rest.tooltip.splitlines() == [
        "1 … 3 Block × 3", "same structure as 0", "2 Q nan !", "3 Q 1.0 ~"
    ]  # fmt: skip


def test_python_is_dashed_and_plumbing_dotted():
    assert one(Item("python", "forward")).stroke == "dashed"
    pipe = one(Item("plumbing", "view · transpose"))
    assert pipe.stroke == "dotted"
    assert pipe.is_soft
    assert one(Item("module", "fc")).stroke == "solid"


def test_long_names_lose_their_middle_and_are_told_in_full():
    name = "_".join(f"part{i}" for i in range(20))
    face = one(Item("module", name, module=name))
    assert len(face.label) == 40
    assert face.label.startswith("part0_part1")
    assert face.label.endswith("part18_part19")
    assert "…" in face.label
    assert face.tooltip == name
    assert shortened("x" * 40) == "x" * 40


def test_an_arrow_a_tilde_or_an_exclamation_mark_stands_beside_the_colour():
    assert signed(Latest("1")) == "1"
    assert signed(Latest("1", "warn", "up")) == "1 ↑"
    assert signed(Latest("1", "warn", "down")) == "1 ↓"
    assert signed(Latest("1", "warn")) == "1 ~"
    assert signed(Latest("nan", "alert")) == "nan !"


@given(st.data())
@settings(deadline=None)
def test_all_that_is_shown_has_a_face(data):
    outline = data.draw(outlines())
    view = shown(outline, opened_somehow(data.draw, outline))
    assert set(faces(outline, view, {})) == {*view.boxes, *view.clusters}
