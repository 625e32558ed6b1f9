"""Values of records as JSON, as numbers and as pictures."""

import json
import math

import pytest
import torch

from taiyi_fx.records.record import Record
from taiyi_fx.writers.values import as_image, doubles, json_value, number


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (2**70, 2**70),
        (None, None),
        (torch.tensor([1.0, math.inf]), [1.0, "Infinity"]),
        (torch.tensor([[True], [False]]), [[True], [False]]),
        (torch.tensor([1 + 2j]), [[1.0, 2.0]]),
        (torch.tensor(math.nan), "NaN"),
    ],
)
def test_any_value_is_strict_json(value, expected):
    assert json.loads(json.dumps(json_value(value), allow_nan=False)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1.5, 1.5), (torch.tensor(3), 3), (torch.tensor(3 + 4j), 5.0), (torch.ones(1), None)],
)
def test_a_number_is_one_also_as_a_tensor_without_axes(value, expected):
    assert number(value) == expected


def test_elements_are_float64_and_complex_ones_absolute():
    found = doubles(torch.tensor([3 + 4j]))
    assert found.dtype == torch.float64
    assert found.tolist() == [5]


@pytest.mark.parametrize(
    ("value", "quantity", "is_image"),
    [
        (torch.ones(2, 3), "FeatureMap", True),
        (torch.ones(2, 3), "ForwardInput", False),
        (torch.ones(3), "FeatureMap", False),
        (torch.ones(0, 3), "FeatureMap", False),
        (1.0, "FeatureMap", False),
    ],
)
def test_a_picture_has_two_axes_and_a_quantity_of_pictures(value, quantity, is_image):
    found = as_image(Record(0, "conv", quantity, value), {"FeatureMap"})
    assert (found is not None) == is_image
