"""Values of any structure, compared bit for bit."""

import dataclasses
import math

import pytest
import torch

from taiyi_fx.snapshot.bitwise import difference, differences, kept, leaves


@dataclasses.dataclass
class Pair:
    first: object
    rest: object


def test_leaves_have_paths_and_types_names():
    found = dict(leaves({"a": [1, Pair("x", (2,))]}))
    assert found == {
        "type of output": "dict",
        "type of output['a']": "list",
        "output['a'][0]": 1,
        "type of output['a'][1]": "Pair",
        "output['a'][1].first": "x",
        "type of output['a'][1].rest": "tuple",
        "output['a'][1].rest[0]": 2,
    }


def test_a_structure_that_holds_itself_ends():
    held = [1]
    held.append(held)
    assert dict(leaves(held))["output[0]"] == 1


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (torch.tensor([0.0]), torch.tensor([-0.0])),
        (torch.tensor([math.nan]), torch.tensor([math.inf])),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2), torch.ones(1, 2)),
        (1, 1.0),
        (True, 1),
        (b"a", b"b"),
    ],
)
def test_these_differ_though_they_may_compare_equal(a, b):
    assert difference(a, b)


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([math.nan, -0.0]),
        torch.tensor([1 + 2j]),
        torch.ones(3, dtype=torch.bfloat16),
        math.nan,
        None,
        "text",
    ],
)
def test_a_value_equals_its_copy(value):
    copy = value.clone() if isinstance(value, torch.Tensor) else value
    assert difference(value, copy) == ""


def test_how_far_tensors_are_apart_is_said():
    assert difference(torch.tensor([4.0, 1.0]), torch.tensor([4.0, 1.5])) == "by up to 0.5 of 4"


def test_missing_and_new_paths_are_differences():
    found = dict(differences({"a": 1, "b": 2}, {"b": 2, "c": 3}))
    assert found == {"a": "is missing", "c": "is new"}


def test_what_is_kept_has_strides_and_stays_as_it_was():
    x = torch.zeros(2, 3).T
    found = kept([("x", x)])
    x.fill_(1)
    assert found["strides of x"] == (1, 3)
    assert found["x"].sum() == 0
