"""Scores of attention with the root of their features for a factor."""

import math

import pytest
import torch
import torch.nn.functional as F

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.grown_scores import grown_scores

D = 16
ROOT, MASK = math.sqrt(D), torch.ones(5, 5).tril().bool()


def found(make):
    q, k, v = (torch.randn(2, 3, 5, D, requires_grad=True) for _ in range(3))
    known = [*grown_scores(Uses.of(make(q, k, v).square().mean()))]
    return [(one.features, round(one.factor, 3)) for one in known]


WRONG = {
    "scores": lambda q, k, v: (q @ k.mT * ROOT).softmax(-1) @ v,
    "divided": lambda q, k, v: (q @ k.mT / D**-0.5).softmax(-1) @ v,
    "queries": lambda q, k, v: (q * ROOT @ k.mT).softmax(-1) @ v,
    "both": lambda q, k, v: ((q * D**0.25) @ (k * D**0.25).mT).softmax(-1) @ v,
    "masked": lambda q, k, v: (q @ k.mT * ROOT).masked_fill(~MASK, -1e9).softmax(-1) @ v,
    "biased": lambda q, k, v: (q @ k.mT * ROOT + torch.randn(5, 5)).softmax(-1) @ v,
    "summed": lambda q, k, v: torch.einsum("bhqd,bhkd->bhqk", q, k).mul(ROOT).softmax(-1) @ v,
    "fused": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=ROOT),
    "fused and causal": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, is_causal=True, scale=ROOT
    ),
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_the_root_of_the_features_is_a_factor_of_scores(make):
    assert found(make) == [(D, 4.0)]


RIGHT = {
    "divided": lambda q, k, v: (q @ k.mT / ROOT).softmax(-1) @ v,
    "not at all": lambda q, k, v: (q @ k.mT).softmax(-1) @ v,
    "there and back": lambda q, k, v: (q * ROOT @ k.mT / D).softmax(-1) @ v,
    "another factor": lambda q, k, v: (q @ k.mT * 20).softmax(-1) @ v,
    "cosines": lambda q, k, v: (
        (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * 20).softmax(-1) @ v
    ),
    "values": lambda q, k, v: (q @ k.mT / ROOT).softmax(-1) @ (v * ROOT),
    "fused": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    "no scores": lambda q, k, v: (q * ROOT).softmax(-1) * v + k,
    "a layer": lambda q, k, v: (q @ torch.randn(D, D) * ROOT).softmax(-1) @ v.mT @ k,
}


@pytest.mark.parametrize("make", RIGHT.values(), ids=RIGHT)
def test_others_are_none(make):
    assert found(make) == []


def test_queries_that_are_constants_have_features():
    q, k = torch.randn(3, 5, D), torch.randn(3, 5, D, requires_grad=True)
    loss = (q @ (k * ROOT).mT).softmax(-1).square().mean()
    assert [*grown_scores(Uses.of(loss))] == []
