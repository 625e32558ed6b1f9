"""Functions without a slope on the way to a loss."""

import pytest
import torch
from torch import nn

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.flat import flat_functions

X = torch.randn(8, 6)


def through(x):
    return x + (x.round() - x).detach()


def rounded(w, by=torch.round, dims=()):
    scale = w.abs().amax(dims, keepdim=True) / 7
    return by(w / scale) * scale


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (lambda a, b: b(a(X).round()).sum(), [("round", "a")]),
        (lambda a, b: b(a(X).floor() * 0.1).sum(), [("floor", "a")]),
        (lambda a, b: b(a(X)).sign().mean(), [("sign", "b")]),
        (lambda a, b: nn.functional.linear(X, a.weight.round()).sum(), [("round", "a")]),
        (lambda a, b: nn.functional.linear(X, rounded(a.weight)).sum(), [("round", "a")]),
        (lambda a, b: nn.functional.linear(X, rounded(a.weight, dims=1)).sum(), [("round", "a")]),
        (lambda a, b: nn.functional.linear(X, rounded(a.weight, through)).sum(), []),
        (lambda a, b: b(through(a(X))).sum(), []),
        (lambda a, b: (a(X).sign() * a(X).abs().sqrt()).sum(), []),
        (lambda a, b: b(X.round()).sum(), []),
        (lambda a, b: b(a(X)).sum(), []),
    ],
    ids=[
        "round",
        "floor",
        "at the end",
        "weights",
        "by the largest",
        "by those of rows",
        "by them, straight",
        "straight",
        "root",
        "data",
        "none",
    ],
)
def test_they_are_found_where_weights_reach_the_loss_in_no_other_way(loss, found):
    torch.manual_seed(0)
    a, b = nn.Linear(6, 6), nn.Linear(6, 6)
    owners = {id(p): name for name, m in (("a", a), ("b", b)) for p in m.parameters()}
    known = [*flat_functions(Uses.of(loss(a, b), owners))]
    assert [(one.function, one.module) for one in known] == found
