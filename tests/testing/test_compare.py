"""When a recorded value is what a reference says."""

import math

import numpy as np
import pytest
import torch

from taiyi_fx.testing import assert_agrees
from taiyi_fx.testing.compare import disagreement

AGREE = [
    (1.000001, 1.0, 0.0),
    (1e-9, 0.0, 1e-8),
    (math.nan, math.inf, 0.0),
    (math.inf, math.nan, 0.0),
    (3, 3, 0.0),
    (5.0, 1.0, math.inf),
    (math.nan, 1.0, math.inf),
    (None, None, 0.0),
    ({}, None, 0.0),
    (torch.tensor([1.0, math.nan]), np.array([1.0, math.nan]), 0.0),
    ({"": 1.0, "n": 4}, {"": 1.0, "n": 4}, {"": 0.1}),
    (torch.tensor([1.0, 0.5]), [1.0, 0.0], np.array([0.0, 1.0])),
    (torch.tensor([1, 2], dtype=torch.bfloat16), [1.0, 2.0], 0.0),
]
DIFFER = [
    (1.0001, 1.0, 0.0, "recorded 1.0001, but the reference is 1.0 within 1e-05"),
    (1.0, math.nan, 0.0, r"the reference is nan \(not finite\)"),
    (math.nan, 1.0, 0.0, "recorded nan"),
    (3, 4, 0.0, "recorded 3.0"),
    (10_000_001, 10_000_000, 0.0, "within 0"),
    (None, 1.0, 0.0, "recorded nothing, but the reference has a value"),
    (1.0, None, 0.0, "recorded a value, but the reference has nothing"),
    ({"": 1.0}, {"": 1.0, "n": 3}, 0.0, "but the reference has a value, 'n'"),
    ({"": 1.0, "n": 2}, {"": 1.0, "n": 3}, 0.0, "n: recorded 2.0"),
    (torch.ones(2), 1.0, 0.0, r"an array of shape \(2,\)"),
    (torch.tensor([1.0, 2.0]), [1.0, 3.0], 0.0, r"recorded 2.0 at \(1,\)"),
]


@pytest.mark.parametrize(("found", "expected", "floor"), AGREE, ids=str)
def test_these_agree(found, expected, floor):
    assert disagreement(found, expected, rel=1e-5, floor=floor) is None


@pytest.mark.parametrize(("found", "expected", "floor", "said"), DIFFER, ids=str)
def test_these_do_not_and_it_is_said(found, expected, floor, said):
    with pytest.raises(AssertionError, match=said):
        assert_agrees(found, expected, rel=1e-5, floor=floor)
