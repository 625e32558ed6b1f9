"""The data of an outline, and its JSON form."""

import json

from torch import nn

from taiyi_fx.outline import Edge, Item, Mark, Marks, Outline
from tests.outline.outlined import outlined


def test_an_outline_survives_json_whatever_the_names():
    model = nn.Sequential()
    for name in ("a\ud800", "</script>", "\u2028", "x" * 1000, "@1", "a@1"):
        model.add_module(name, nn.Linear(2, 2))
    outline = outlined(model)
    assert Outline.from_json(json.loads(json.dumps(outline.to_json()))) == outline
    assert {item.label for item in outline.items} >= {"a\ud800", "@1", "a@1"}


def test_empty_fields_are_left_out_of_json():
    marks = Marks(forward=(Mark("OutputRMS", "every(2)"),), edits=("output value · half",))
    outline = Outline(
        (Item("module", "model"), Item("op", "add", parent=0, marks=marks)), (Edge(0, 1, "2×3"),)
    )
    assert outline.to_json() == {
        "items": [
            {"kind": "module", "parent": -1, "label": "model"},
            {
                "kind": "op",
                "parent": 0,
                "label": "add",
                "marks": {
                    "forward": (("OutputRMS", "every(2)"),),
                    "edits": ("output value · half",),
                },
            },
        ],
        "edges": [[0, 1, "2×3"]],
    }


def test_children_are_the_items_with_that_parent():
    items = [Item("op", str(i), parent=parent) for i, parent in enumerate((-1, 0, 1, 0))]
    assert Outline(tuple(items), ()).children() == [[1, 3], [2], [], []]


def test_edges_and_modules_are_sorted_once_and_found_by_item_and_by_name():
    names = ("", "a", "b@1", "", "a")
    items = [
        Item("module", "m", module=name, parent=0 if i else -1) for i, name in enumerate(names)
    ]
    outline = Outline(tuple(items), (Edge(1, 2, "3"), Edge(1, 4), Edge(3, 2)))
    assert outline.edges_into == {2: [Edge(1, 2, "3"), Edge(3, 2)], 4: [Edge(1, 4)]}
    assert outline.places == {"a": [1, 4], "b@1": [2]}
    assert outline.edges_into is outline.edges_into
    assert outline.places is outline.places


def test_marks_are_false_only_if_they_are_empty():
    assert not Marks()
    edited = Marks(edits=("input value · half",))
    assert edited
    assert not edited.has_readings
    assert Marks(parameters=(Mark("WeightNorm", ""),)).has_readings
