"""Chunks: vectors as float32, and histograms between their edges."""

import math

import numpy as np
import pytest
import torch

import taiyi_fx
from taiyi_fx.pictures.report.chunks import _trimmed, tensors_chunk
from taiyi_fx.quantities.binned import BY_POWER_OF_TWO, EDGES
from taiyi_fx.records.record import Record
from taiyi_fx.reductions import histogram_edges
from taiyi_fx.writers import Batch, Store
from tests.pictures.report.decoded import decoded
from tests.pictures.report.models import small
from tests.writers.runs import written

INF = math.inf


def test_histograms_are_between_their_edges(tmp_path):
    assert histogram_edges().tolist() == EDGES.tolist()
    model = taiyi_fx.instrument(small(), {"2": ["InputHistogram", "WeightHistogram"]})
    x = torch.randn(16, 4)
    model(x).sum().backward()
    model.monitor.track(0)
    page = decoded(taiyi_fx.report(model, tmp_path / "x.html"))
    ((step, counts),), bins = (
        page.vectors("2", "WeightHistogram")[0].items(),
        page.vectors("2", "WeightHistogram")[1],
    )
    weights = model.get_submodule("2").weight.detach().double().numpy()
    assert step == 0
    assert bins["kind"] == "edges"
    assert len(bins["edges"]) == len(counts) + 1
    assert counts[0] > 0 < counts[-1]
    filled = np.flatnonzero(counts)
    for i in filled:
        low, high = bins["edges"][i : i + 2]
        is_inside = (weights >= low) & (weights < high)
        if low < 0:
            is_inside = (weights > low) & (weights <= high)
        assert counts[i] == is_inside.sum()
    assert counts.sum() == weights.size


def histogram(**counts):
    found = np.zeros((2, 514), np.float32)
    for bin_, count in counts.items():
        found[1, 1 + int(bin_[1:])] = count
    return found


@pytest.mark.parametrize(
    ("counts", "edges", "kept"),
    [
        ({}, [-(2.0**128)], []),
        ({"_255": 3}, [0, 0], [3]),
        ({"_383": 1, "_384": 2}, [1, 2, 4], [1, 2]),
        ({"_127": 1, "_383": 5, "_385": 2}, [-2, -1, 1, 2, 4, 8], [1, 0, 5, 0, 2]),
        ({"_127": 1, "_255": 7, "_383": 5}, [-2, -1, 1, 2], [1, 7, 5]),
        ({"_127": 1, "_255": 7, "_382": 5}, [-2, -1, -0.5, 0.5, 1], [1, 0, 7, 5]),
        ({"_255": 7, "_383": 5}, [0, 1, 2], [7, 5]),
        ({"_127": 3, "_255": 2}, [-2, -1, 0], [3, 2]),
        ({"_254": 1, "_255": 7, "_256": 5}, [-(2.0**-126), 0, 0, 2.0**-126], [1, 7, 5]),
    ],
)
def test_empty_bins_outside_and_around_zero_are_not_shown(counts, edges, kept):
    found = _trimmed(histogram(**counts))
    assert found[0].tolist() == edges
    assert found[1].tolist() == [[0] * len(kept), kept]


@pytest.mark.parametrize("lengths", [(3, 3), (600, 600), (514, 3)])
def test_a_unit_that_is_wrong_makes_no_histogram(lengths):
    found = {step: np.arange(n) for step, n in enumerate(lengths)}
    chunk = tensors_chunk({"quantity": "q"}, found, BY_POWER_OF_TWO)
    assert chunk.entry["bins"] == {"kind": "index"}


def test_vectors_of_all_kinds_are_shown_as_float32(tmp_path):
    values = {
        "short then long": [torch.ones(2), torch.arange(4.0)],
        "number": [torch.tensor([[1.0]])[0, 0].reshape(())],
        "complex": [torch.tensor([3 + 4j])],
        "whole": [torch.tensor([7, -7])],
        "too large": [torch.tensor([1e300, -1e300], dtype=torch.float64)],
        "image": [torch.ones(2, 2)],
    }
    records = [Record(s, "m", name, x) for name, xs in values.items() for s, x in enumerate(xs)]
    path = written(Store, tmp_path / "run", [Batch(0, records=records)])
    page = decoded(taiyi_fx.report(path, tmp_path / "x.html"))
    found = {name: page.vectors("m", name)[0] for name in values if name != "image"}
    assert {n: {s: v.tolist() for s, v in x.items()} for n, x in found.items()} == {
        "short then long": {0: [1, 1], 1: [0, 1, 2, 3]},
        "number": {0: [1]},
        "complex": {0: [5]},
        "whole": {0: [7, -7]},
        "too large": {0: [INF, -INF]},
    }
    assert page.header["runs"][0]["left_out"]["tensors"] == 1
    assert ("m", "image", "train") not in page.entries()
