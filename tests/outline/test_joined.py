"""Outlines of several models are boxes of one."""

from taiyi_fx.outline import Edge, Item, Outline
from taiyi_fx.outline.joined import joined


def model(*names):
    items = [
        Item("module", "model", "Net"),
        *(Item("module", n, module=n, parent=0) for n in names),
    ]
    return Outline(tuple(items), tuple(Edge(i, i + 1) for i in range(1, len(names))))


def test_each_model_is_a_box_with_its_boxes_and_edges():
    found = joined([("rank0", model("a", "b"), {}), ("rank1", model("c", "d"), {"c": "x.c"})])
    assert found is not None
    labels = [item.label for item in found.items]
    assert labels == ["parts", "rank0", "a", "b", "rank1", "c", "d"]
    assert [item.parent for item in found.items] == [-1, 0, 1, 1, 0, 4, 4]
    assert [item.module for item in found.items[2:]] == ["a", "b", "", "x.c", "d"]
    assert found.edges == (Edge(2, 3), Edge(5, 6))
    assert Outline.from_json(found.to_json()) == found


def test_one_model_needs_no_box_around_it():
    assert joined([("stage", model("a"), {"a": "stage.a"})]) == Outline(
        (Item("module", "model", "Net"), Item("module", "a", module="stage.a", parent=0)), ()
    )
    assert joined([]) is None
