"""Runs in parts of Parquet: written, and read back here and by others."""

import math
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from torch import nn

import taiyi_fx
from taiyi_fx.writers import Parquet
from tests.writers.round_trip import comes_back, half, records, unhurried
from tests.writers.runs import info, numbers, trained, written


@half
@given(records(2**63 - 1))
@unhurried
def test_what_is_in_parquet_comes_back(tmp_path, made):
    comes_back(Parquet, tmp_path, made)


def test_the_parts_are_one_line_for_pandas_and_polars(tmp_path):
    values = [1.5, math.nan, math.inf, -math.inf]
    written(Parquet, tmp_path, [numbers(3, values, epoch=2), numbers(4, [7, 2**60])])
    parts = pl.read_parquet(tmp_path / "points-*.parquet")
    np.testing.assert_array_equal(parts["value"].to_numpy(), [*values, 7, 2.0**60])
    assert parts["integer"].to_list() == [None] * 4 + [7, 2**60]
    assert parts["flag"].to_list() == [None, "NaN", "+Inf", "-Inf", None, None]
    one = pd.read_parquet(sorted(tmp_path.glob("points-*.parquet"))[0])
    assert one["module"].tolist() == ["a", "b", "c", "d"]


def test_both_formats_share_a_folder(tmp_path):
    model = taiyi_fx.instrument(
        nn.Linear(4, 2), {"": ["InputMean"]}, run=tmp_path, writers=[Parquet(tmp_path)]
    )
    trained(model, range(2)).monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert len(run.series("", "InputMean").steps) == 2
    assert len(list(tmp_path.glob("points-*.parquet"))) == 1


def test_a_missing_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'taiyi-fx\[parquet\]'"):
        Parquet(tmp_path).open(info())
