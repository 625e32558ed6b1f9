"""Numbers and vectors as pictures take them."""

import math

import numpy as np
import pytest
import torch

from taiyi_fx.records.record import Record, Records
from taiyi_fx.writers.grids import grid_of, vectors_of


def test_numbers_too_large_to_draw_are_clipped_and_infinite_ones_stay():
    values = [1.7e308, -1.7e308, math.inf, math.nan, 1.0]
    records = Records([Record(step, "a", "q", value) for step, value in enumerate(values)])
    found = grid_of(records, "q", "train").values[0]
    np.testing.assert_array_equal(found, [1e300, -1e300, math.inf, math.nan, 1.0])


def test_tensors_come_flat_in_the_order_of_steps():
    rows = [Record(s, "a", "q", torch.full((2, 2), float(s))) for s in (3, 1)]
    steps, vectors = vectors_of(Records(rows), "q", "a", "train")
    assert steps == [1, 3]
    assert [v.tolist() for v in vectors] == [[1.0] * 4, [3.0] * 4]


def test_complex_vectors_are_drawn_by_their_absolute_values():
    rows = [Record(0, "a", "q", torch.tensor([3 + 4j, 1j]))]
    (vector,) = vectors_of(Records(rows), "q", "a", "train")[1]
    assert vector.tolist() == [5, 1]


def test_a_tensor_of_one_number_is_no_vector():
    rows = [Record(0, "a", "q", torch.ones(1))]
    with pytest.raises(LookupError, match="'q' of 'a' has tensors, but none of several numbers"):
        vectors_of(Records(rows), "q", "a", "train")
