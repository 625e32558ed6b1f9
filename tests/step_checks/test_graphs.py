"""Steps whose samples are the nodes of a graph, and others that only look so."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from tests.step_checks import steps

_NEAR = (
    torch.rand(steps.BATCH, steps.BATCH, generator=torch.Generator().manual_seed(3)) < 0.3
).double()
_FROM, _TO = _NEAR.nonzero().T


def by_table(x):
    return _NEAR.to(x.dtype) @ x


def by_sparse_table(x):
    return torch.sparse.mm(_NEAR.to(x.dtype).to_sparse(), x)


def by_edges(x):
    return torch.zeros_like(x).index_add(0, _TO, x[_FROM])


def by_selection(x):
    return torch.zeros_like(x).index_add(0, _TO, x.index_select(0, _FROM))


class Convolution(nn.Module):
    def __init__(self, pass_on):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(6, 16), nn.Linear(16, steps.CLASSES)
        self.pass_on = pass_on

    def forward(self, x):
        return self.last(self.pass_on(self.first(x)).relu())


@pytest.mark.parametrize("pass_on", [by_table, by_sparse_table, by_edges, by_selection])
def test_the_nodes_of_a_graph_see_each_other_on_purpose(pass_on):
    model = Convolution(pass_on)
    found = taiyi_fx.step_check(model, lambda x, y: F.cross_entropy(model(x), y), *steps.batch())
    assert found == []
    for check in ("order", "samples"):
        assert f"{check} (the samples are the nodes of a graph" in found.remark


class AsWide(nn.Module):
    """As many features as samples, of which each sample's mean is taken, or each feature's."""

    def __init__(self, axis):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(6, steps.BATCH)
        self.square = nn.Linear(steps.BATCH, steps.BATCH)
        self.last = nn.Linear(steps.BATCH, steps.CLASSES)
        self.axis = axis

    def forward(self, x):
        x = self.first(x) @ self.square.weight.T
        return self.last(x - x.mean(self.axis, keepdim=True))


@pytest.mark.parametrize("axis", [0, 1])
def test_weights_that_are_as_wide_as_the_batch_are_no_graph(axis):
    model = AsWide(axis)
    found = taiyi_fx.step_check(model, lambda x, y: F.cross_entropy(model(x), y), *steps.batch())
    assert [one.kind for one in found] == ([] if axis else ["crossing_rows"])
