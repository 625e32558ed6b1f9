"""Histograms of tensors, compared with counts made one by one."""

import math

import numpy as np
import pytest
import torch

from taiyi_fx.quantities.binned import BY_POWER_OF_TWO
from taiyi_fx.records.record import Record
from taiyi_fx.reductions import Histogram
from taiyi_fx.writers.bins import bins_of


def of(x):
    return bins_of(Record(0, "fc", "ForwardInput", x), "", most=8)


@pytest.mark.parametrize(
    "x",
    [
        torch.linspace(-1, 1, 50),
        torch.tensor([2.0, 2.0, 2.0]),
        torch.tensor([-1.7e308, 1.7e308], dtype=torch.float64),
        torch.tensor([1.0, math.nan, math.inf, -math.inf]),
        torch.tensor([True, False]),
    ],
)
def test_each_finite_element_is_counted_in_the_bin_that_it_lies_in(x):
    found = of(x)
    values = [v for v in x.double().tolist() if math.isfinite(v)]
    assert found.counts.sum() == len(values)
    assert found.not_finite == x.numel() - len(values)
    assert (found.edges[0], found.edges[-1]) == (min(values), max(values))
    for i, (low, high) in enumerate(zip(found.edges[:-1], found.edges[1:], strict=True)):
        is_last = i == len(found.counts) - 1
        assert found.counts[i] == sum(low <= v < high or (is_last and v == high) for v in values)


def test_a_vector_of_as_many_elements_is_no_histogram_by_its_name():
    """Only the unit says that elements are counts."""
    x = torch.zeros(514)
    x[0] = -7.0
    found = bins_of(Record(0, "fc", "MyHistogram", x), "", most=8)
    assert (found.edges[0], found.counts.sum()) == (-7, 514)


@pytest.mark.parametrize("shape", [(3,), (600,), (2, 257)])
def test_a_unit_that_is_wrong_makes_no_histogram_of_counts(shape):
    found = bins_of(
        Record(0, "fc", "q", torch.arange(math.prod(shape)).reshape(shape)), BY_POWER_OF_TWO
    )
    assert (found.edges[0], found.edges[-1]) == (0, math.prod(shape) - 1)


def test_where_nothing_is_finite_there_are_no_bins():
    found = of(torch.tensor([math.nan, math.inf]))
    assert (len(found.edges), len(found.counts), found.not_finite) == (0, 0, 2)


def test_complex_elements_are_counted_by_their_absolute_value():
    found = of(torch.tensor([3 + 4j, 0j]))
    assert (found.edges[0], found.edges[-1]) == (0, 5)


def test_a_histogram_keeps_its_own_bins_without_the_empty_ones():
    x = torch.tensor([1.0, 2.0, 300.0, math.nan])
    reduction = Histogram()
    counts = reduction.finish(reduction.measure(x))
    found = bins_of(Record(0, "fc", "InputHistogram", counts), BY_POWER_OF_TWO)
    assert (found.counts.sum(), found.not_finite) == (3, 1)
    assert found.counts[0] > 0
    assert found.counts[-1] > 0
    assert np.histogram(x[:3].numpy(), found.edges)[0].tolist() == found.counts.tolist()
