"""Grids: numbers by module and step, where present and where not."""

import numpy as np
import pytest
import torch

from taiyi_fx.records.record import Record, Records


def test_a_grid_has_nan_and_no_presence_where_nothing_is():
    records = Records(
        [
            Record(2, "b", "q", 1.0),
            Record(0, "a", "q", float("nan")),
            Record(2, "a", "q", 3),
            Record(2, "a", "q", 4),
            Record(9, "a", "q", 4, "eval"),
            Record(9, "a", "q", torch.ones(2)),
        ]
    )
    grid = records.grid("q")
    assert grid.modules == ("b", "a")
    assert grid.steps.tolist() == [0, 2]
    np.testing.assert_array_equal(grid.values, [[np.nan, 1], [np.nan, 4]])
    assert grid.present.tolist() == [[False, True], [True, True]]
    with pytest.raises(LookupError, match="no numbers of 'Q' in train. Did you mean 'q'"):
        records.grid("Q")
