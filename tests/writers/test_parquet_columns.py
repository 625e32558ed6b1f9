"""The columns of a run in Parquet, as other programs read them."""

import math

import numpy as np
import pandas as pd
import polars as pl

from taiyi_fx.writers import Parquet
from tests.writers.runs import numbers, written


def test_the_parts_are_one_line_for_pandas_and_polars(tmp_path):
    values = [1.5, math.nan, math.inf, -math.inf]
    written(Parquet, tmp_path, [numbers(3, values, epoch=2), numbers(4, [7, 2**60])])
    parts = pl.read_parquet(tmp_path / "points-*.parquet")
    np.testing.assert_array_equal(parts["value"].to_numpy(), [*values, 7, 2.0**60])
    assert parts["integer"].to_list() == [None] * 4 + [7, 2**60]
    assert parts["flag"].to_list() == [None, "NaN", "+Inf", "-Inf", None, None]
    one = pd.read_parquet(sorted(tmp_path.glob("points-*.parquet"))[0])
    assert one["module"].tolist() == ["a", "b", "c", "d"]


def test_a_step_of_whole_numbers_alone_keeps_them_and_one_beyond_64_bits_is_a_float(tmp_path):
    written(Parquet, tmp_path, [numbers(0, [3, -(2**63), 2**63])])
    part = pl.read_parquet(tmp_path / "points-*.parquet")
    assert part["integer"].to_list() == [3, -(2**63), None]
    assert part["value"].to_list() == [3.0, -(2.0**63), 2.0**63]
