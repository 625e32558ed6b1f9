"""The boxes that a finding names."""

import dataclasses
import itertools

import pytest

from taiyi_fx.findings import Finding
from taiyi_fx.outline import Edge, Item, Outline
from taiyi_fx.pictures.report.finding_boxes import boxes_of

ITEMS = (
    Item("module", "model"),
    Item("input", "x", parent=0),
    Item("op", "log", parent=0),
    Item("module", "fc", module="fc", class_name="Linear", parent=0),
    Item("plumbing", "transpose", parent=0),
    Item("plumbing", "view", parent=0),
    Item("plumbing", "view", parent=0),
    Item("module", "act", module="act", class_name="Sigmoid", parent=0),
    Item("module", "out", module="out", class_name="Linear", parent=0),
    Item("op", "tanh", parent=0),
    Item("output", "output", parent=0),
)
MODEL, X, LOG, FC, TRANSPOSE, VIEW, LATER, ACT, OUT, TANH, _ = range(len(ITEMS))


def outline(*ways):
    edges = [Edge(*pair) for way in ways for pair in itertools.pairwise(way)]
    return Outline(ITEMS, tuple(edges))


WHOLE = outline((X, LOG, FC, TRANSPOSE, VIEW, LATER, ACT, OUT, TANH))
DIRECT = outline((X, FC, ACT, OUT))


def finding(kind, module="", text="seen", quantity="loss", consequences=(), functions=()):
    told = (kind, "warning", module, quantity, 3, 1.0, "", text, "do")
    return Finding(*told, consequences=tuple(consequences), functions=functions)


ALL = "'fc', 'act' and 'out': frozen, where 'log' is not"


@pytest.mark.parametrize(
    ("found", "shown", "boxes"),
    [
        (finding("outlier", "fc"), WHOLE, [FC]),
        (finding("outlier", "other"), WHOLE, []),
        (finding("plateau"), WHOLE, []),
        (finding("moving_statistics", "fc", ALL), WHOLE, [FC, ACT, OUT]),
        (finding("outlier", "fc", "'fc' is larger than 'out'"), WHOLE, [FC]),
        (finding("torn_view", "fc"), WHOLE, [FC, VIEW]),
        (finding("torn_view", "out"), WHOLE, [OUT]),
        (finding("squashed_loss", functions=("sigmoid",)), WHOLE, [ACT]),
        (finding("squashed_loss", functions=("tanh",)), WHOLE, [TANH]),
        (finding("detached", "fc", functions=("view", "argmax")), WHOLE, [FC, VIEW]),
        (finding("non_finite", "fc", quantity="InputRMS"), WHOLE, [FC, LOG]),
        (finding("non_finite", "fc", quantity="InputRMS"), DIRECT, [FC, X]),
        (finding("non_finite", "fc", quantity="OutputRMS"), DIRECT, [FC]),
        (finding("wild_input", "fc", quantity="InputRMS"), WHOLE, [FC, X]),
        (finding("wild_input", "act", quantity="InputRMS"), DIRECT, [ACT]),
    ],
)
def test_a_finding_names_modules_functions_and_inputs(found, shown, boxes):
    assert boxes_of(found, shown) == boxes


def test_findings_of_the_same_kind_beneath_are_named_too():
    beneath = [finding("drift", "out"), finding("plateau", "act")]
    assert boxes_of(finding("drift", "fc", consequences=beneath), WHOLE) == [FC, OUT]


def test_functions_within_a_module_lead_on_from_it():
    inner = Item("op", "mul", parent=FC)
    items = (*ITEMS[: FC + 1], inner, *ITEMS[FC + 1 :])
    ways = ((X, FC + 1), (FC + 1, VIEW + 1))
    held = dataclasses.replace(outline(), items=items, edges=tuple(Edge(*way) for way in ways))
    assert boxes_of(finding("torn_view", "fc"), held) == [FC, VIEW + 1]
