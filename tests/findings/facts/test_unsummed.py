"""Softmaxes of attention whose weights do not add up over what they weigh."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings.facts.autograd import Uses, name_of
from taiyi_fx.findings.facts.unsummed import unsummed_softmaxes

QKV = nn.Linear(8, 24)
FUTURE = torch.ones(6, 6, dtype=torch.bool).triu(1)


def attend(axis, weigh=lambda weights, v: weights @ v, *, heads=2):
    q, k, v = QKV(torch.randn(3, 6, 8)).view(3, 6, 3, heads, -1).permute(2, 0, 3, 1, 4)
    weights = (q @ k.mT / 2).masked_fill(FUTURE, -1e9).softmax(axis)
    return [*unsummed_softmaxes(Uses.of(weigh(weights, v).square().mean()))]


@pytest.mark.parametrize(
    ("axis", "weigh"),
    [
        (-2, lambda weights, v: weights @ v),
        (2, lambda weights, v: F.dropout(weights, 0.1) @ v),
        (-1, lambda weights, v: weights.mT @ v),
        (-2, lambda weights, v: (v.mT @ weights.mT).mT),
    ],
    ids=["queries", "dropout", "transposed", "from the right"],
)
def test_an_axis_that_the_product_does_not_sum_over_is_found(axis, weigh):
    assert [name_of(node) for node in attend(axis, weigh)] == ["Softmax"]


@pytest.mark.parametrize(
    ("axis", "weigh"),
    [
        (-1, lambda weights, v: weights @ v),
        (-2, lambda weights, v: weights.mT @ v),
        (-1, lambda weights, v: (v.mT @ weights.mT).mT),
        (-2, lambda weights, v: weights / weights.sum(-1, keepdim=True) @ v),
        (1, lambda weights, v: weights @ v),
    ],
    ids=["keys", "transposed", "from the right", "slots", "talking heads"],
)
def test_the_axis_that_is_summed_over_is_right(axis, weigh):
    assert attend(axis, weigh) == []


def test_slots_that_compete_for_keys_are_right():
    q, kv = (QKV(torch.randn(3, 2, n, 8))[..., :8] for n in (4, 6))
    weights = (q @ kv.mT).softmax(-2)
    assert [*unsummed_softmaxes(Uses.of((weights @ kv).square().mean()))] == []


def test_clusters_that_a_layer_chooses_are_no_attention():
    shares = nn.Conv2d(8, 4, 1)(torch.randn(3, 8, 5, 6)).softmax(2)
    assert [*unsummed_softmaxes(Uses.of((shares @ torch.randn(6, 2)).mean()))] == []
