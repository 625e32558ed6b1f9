"""Runs in parts of Parquet: written, and read back here and by others."""

import sys

import pytest
from hypothesis import given
from torch import nn

import taiyi_fx
from taiyi_fx.writers import Parquet
from tests.writers.round_trip import comes_back, half, records, unhurried
from tests.writers.runs import info, trained


@half
@given(records(2**63 - 1))
@unhurried
def test_what_is_in_parquet_comes_back(tmp_path, made):
    comes_back(Parquet, tmp_path, made)


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
