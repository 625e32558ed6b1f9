"""Counts by power of two: where numpy has the edges that torch has."""

import numpy as np
import torch

from taiyi_fx.quantities.binned import BY_POWER_OF_TWO, EDGES, FINITE, OF_ZERO
from taiyi_fx.quantities.catalogue import quantities
from taiyi_fx.reductions import Histogram, histogram_edges


def counts_of(*values):
    reduction = Histogram()
    return reduction.finish(reduction.measure(torch.tensor(values))).numpy()


def test_the_edges_are_those_of_the_reduction():
    assert EDGES.tolist() == histogram_edges().tolist()


def test_finite_counts_lie_between_edges():
    finite = counts_of(0.0, 0.0, 0.0, float("nan"), float("inf"), float("-inf"))[FINITE]
    assert len(finite) == len(EDGES) - 1
    assert (finite[OF_ZERO], finite.sum()) == (3, 3)
    (place,) = np.flatnonzero(counts_of(-5.0)[FINITE])
    assert EDGES[place : place + 2].tolist() == [-8, -4]


def test_each_stock_quantity_of_such_counts_says_so_by_its_unit():
    named = {one.name for one in quantities() if one.unit == BY_POWER_OF_TWO}
    assert named == {one.name for one in quantities() if one.name.endswith("Histogram")}
    assert "Histogram" in named
