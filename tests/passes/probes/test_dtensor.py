"""Spread tensors: what of one is to be reduced here. Of several ranks: tests/distributed."""

import pytest
import torch
from torch.nn import Parameter

from taiyi_fx.passes.probes import dtensor
from taiyi_fx.passes.probes.dtensor import at_call, is_spread, of_parameters
from taiyi_fx.reductions import Moments, Norm


def test_plain_tensors_are_not_spread_and_all_are_reduced():
    tensors = [torch.ones(1), Parameter(torch.ones(2))]
    assert not any(map(is_spread, tensors))
    found = of_parameters(tensors, Norm(), members=(0, 1))
    assert [*map(id, found)] == [*map(id, tensors)]


class Shard:
    """A placement of rows or features."""

    def __init__(self, dim):
        self.dim = dim

    def is_shard(self):
        return True

    def is_partial(self):
        return False

    def is_replicate(self):
        return False


class Mesh:
    def __init__(self, coordinate):
        self.coordinate = coordinate

    def get_coordinate(self):
        return self.coordinate


class Spread:
    """As a DTensor answers: rows of which this rank holds two of four."""

    ndim = 2

    def __init__(self, dim, coordinate=(0,)):
        self.placements, self.device_mesh = [Shard(dim)], Mesh(coordinate)

    def full_tensor(self):
        return torch.ones(4, 3)

    def to_local(self):
        return torch.ones(2, 3)


def test_rows_are_reduced_where_they_lie():
    assert at_call(Spread(0), Norm(), is_joined=True).shape == (2, 3)
    features = Moments("feature", feature_axis=1)
    assert at_call(Spread(0), features, is_joined=True).shape == (2, 3)


@pytest.mark.parametrize(("coordinate", "is_first"), [((0,), True), ((1,), False)])
def test_parts_of_features_are_brought_together_and_reduced_once(coordinate, is_first):
    features = Moments("feature", feature_axis=1)
    found = at_call(Spread(1, coordinate), features, is_joined=True)
    assert (found is not None) == is_first
    assert found is None or found.shape == (4, 3)


def test_a_rank_that_is_not_joined_reduces_the_whole():
    assert at_call(Spread(0), Norm(), is_joined=False).shape == (4, 3)
    assert dtensor.whole(Spread(0)).shape == (4, 3)
