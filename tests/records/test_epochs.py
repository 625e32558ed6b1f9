"""Epochs: statistics of each scalar series between two ticks, exact or streaming."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from taiyi_fx.records import epochs as epochs_file
from taiyi_fx.records.epochs import Epochs
from taiyi_fx.records.record import Record

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


def closed(values, statistics):
    epochs = Epochs(statistics)
    for step, value in enumerate(values):
        epochs.add(Record(step, "fc", "InputMean", value))
    (summary,) = epochs.close(None)
    return summary


@given(NUMBERS)
def test_exact_statistics_are_those_of_the_values(values):
    found = closed(values, "exact")
    assert found.count == len(values)
    assert found.mean == pytest.approx(np.mean(values), rel=1e-9, abs=1e-9)
    assert (found.min, found.max) == (min(values), max(values))
    quartiles = np.quantile(values, [0.25, 0.5, 0.75])
    assert [found.lower_quartile, found.median, found.upper_quartile] == pytest.approx(quartiles)
    assert_same_spread(found.std, values)


@given(NUMBERS)
def test_streaming_statistics_are_the_same_without_quantiles(values):
    found = closed(values, "streaming")
    assert found.count == len(values)
    assert found.mean == pytest.approx(np.mean(values), rel=1e-9, abs=1e-9)
    assert (found.min, found.max) == (min(values), max(values))
    assert (found.lower_quartile, found.median, found.upper_quartile) == (None, None, None)
    assert_same_spread(found.std, values)


@given(st.lists(NUMBERS, min_size=1, max_size=8))
def test_statistics_are_the_same_however_values_come(parts):
    epochs = Epochs("streaming")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(epochs_file, "_WAITING", 5)
        for step, value in enumerate(value for part in parts for value in part):
            epochs.add(Record(step, "fc", "InputMean", value))
        (summary,) = epochs.close(None)
    values = [value for part in parts for value in part]
    assert summary.count == len(values)
    assert summary.mean == pytest.approx(np.mean(values), rel=1e-9, abs=1e-9)
    assert (summary.min, summary.max) == (min(values), max(values))
    assert_same_spread(summary.std, values)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("waiting", [1, 5, 100])
def test_what_is_not_finite_stays_so(value, waiting, monkeypatch):
    monkeypatch.setattr(epochs_file, "_WAITING", waiting)
    values = [1.0] * 6 + [value] + [2.0] * 6
    found = closed(values, "streaming")
    np.testing.assert_equal(
        [found.mean, found.std, found.min, found.max],
        [value, math.nan, min(1.0, value), max(2.0, value)] if value == value else [value] * 4,
    )


def test_an_epoch_that_never_ends_is_kept_in_bounds(monkeypatch):
    monkeypatch.setattr(epochs_file, "_EXACT", 10)
    monkeypatch.setattr(epochs_file, "_WAITING", 4)
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 2)), {"0": ["WeightNorm"]})
    monitor = model.monitor
    for step in range(20):
        monitor.log("loss", float(step))
        monitor.track(step)
        assert len(monitor._queue._epochs._state.blocks) <= 11
    with pytest.warns(taiyi_fx.MonitorWarning, match="more than five million numbers belong to"):
        summary = monitor.tick_epoch()[-1]
    assert (summary.count, summary.mean, summary.min, summary.max) == (20, 9.5, 0.0, 19.0)
    assert summary.median is None
    monitor.log("loss", 1.0)
    monitor.track(20)
    assert monitor.tick_epoch()[-1].median == 1.0


def assert_same_spread(std, values):
    if len(values) == 1:
        assert math.isnan(std)
    else:
        assert std == pytest.approx(np.std(values, ddof=1), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("statistics", ["exact", "streaming"])
def test_nan_in_a_value_gives_nan(statistics):
    found = closed([1.0, math.nan, 2.0], statistics)
    assert math.isnan(found.mean)
    assert math.isnan(found.min)
    assert math.isnan(found.max)


@pytest.mark.parametrize("statistics", ["exact", "streaming"])
def test_a_tick_closes_each_scalar_series_and_begins_anew(statistics):
    cfg = {"0": ["InputSndNorm", ["ForwardInput", "linear(2, 0)"], ["InputCovMaxEig", "every(2)"]]}
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 2)), cfg, epoch_statistics=statistics)
    monitor = model.monitor
    values = {0: [], 1: []}
    for epoch in range(2):
        for i in range(3):
            x = torch.randn(5, 3)
            values[epoch].append(x.norm().item())
            loss = model(x).sum()
            loss.backward()
            monitor.log("loss", loss)
            monitor.track(3 * epoch + i)
        summaries = monitor.tick_epoch()
        by_name = {s.quantity: s for s in summaries}
        assert set(by_name) == {"InputSndNorm", "InputCovMaxEig", "loss"}
        assert by_name["InputSndNorm"].mean == pytest.approx(np.mean(values[epoch]), rel=1e-6)
        assert by_name["InputSndNorm"].epoch == epoch
        assert by_name["InputCovMaxEig"].count == (2 if epoch == 0 else 1)
        assert (by_name["loss"].module, by_name["loss"].count) == ("", 3)
    assert [s.epoch for s in monitor.epochs] == [0, 0, 0, 1, 1, 1]
    assert monitor.tick_epoch() == []
    assert monitor.tick_epoch(epoch=10) == []


def test_training_and_evaluation_are_summarised_apart():
    model = taiyi_fx.instrument(
        nn.Sequential(nn.Linear(3, 2)), {"0": ["InputSndNorm"]}, record_eval=True
    )
    model(torch.ones(1, 3))
    model.eval()
    model(2 * torch.ones(1, 3))
    model.monitor.track(0)
    means = {s.mode: s.mean for s in model.monitor.tick_epoch()}
    assert means == pytest.approx({"train": 3**0.5, "eval": 2 * 3**0.5})
