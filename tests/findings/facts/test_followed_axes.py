"""Axes followed to the loss."""

import pytest
import torch
import torch.nn.functional as F

from taiyi_fx.findings.facts.autograd import Uses, name_of
from taiyi_fx.findings.facts.followed_axes import lead_to_the_loss

X = torch.randn(4, 3, 5, requires_grad=True)

# What is done with a tensor of axes 4, 3 and 5, and the axes of it that stay apart.
APART = {
    "mean": (lambda x: x.mean(), (0, 1, 2)),
    "sum over one": (lambda x: x.sum(1).mean(), (0, 2)),
    "mean over two": (lambda x: x.mean((0, -1)).mean(), (1,)),
    "kept axis": (lambda x: (x - x.detach().amax(0, keepdim=True)).mean(), (0, 1, 2)),
    "largest, kept": (lambda x: x.amax(-1, keepdim=True).mean(), (0, 1)),
    "norm": (lambda x: torch.linalg.vector_norm(x, dim=1).mean(), (0, 2)),
    "product, of merged rows": (lambda x: (x @ torch.randn(5, 6)).mean(), (0,)),
    "product, without its rows": (lambda x: (torch.randn(4, 6, 3) @ x).mean(), (0, 2)),
    "matrices": (lambda x: torch.addmm(torch.ones(6), x[0], torch.randn(5, 6)).mean(), (1,)),
    "transpose": (lambda x: (x.transpose(0, -1) @ torch.randn(4, 2)).mean(), (1, 2)),
    "permute": (lambda x: x.permute(2, 0, 1).sum(0).mean(), (0, 1)),
    "turned": (lambda x: x[:, 0].t().sum(0).mean(), (0,)),
    "view, first axis merged": (lambda x: x.reshape(12, 5).sum(1).mean(), (0,)),
    "view, last axes merged": (lambda x: x.reshape(4, 15).mean(), (0,)),
    "view, kept": (lambda x: x.view(2, 2, 3, 5).sum(2).mean(), (0, 2)),
    "new axis": (lambda x: x.unsqueeze(1).sum(2).mean(), (0, 2)),
    "stack": (lambda x: torch.stack([x, x], 1).sum(2).mean(), (0, 2)),
    "select": (lambda x: x.select(-2, 1).mean(), (0, 2)),
    "broadcast": (lambda x: (x + torch.ones(2, 4, 3, 5)).sum(-1).mean(), (0, 1)),
    "cut": (lambda x: x[:2].mean(), (0, 1, 2)),
    "gathered": (lambda x: x[torch.tensor([1, 1, 3])].mean(), (0,)),
    "a loss": (lambda x: F.mse_loss(x, torch.zeros(4, 3, 5)), (0, 1, 2)),
    "sum of all": (lambda x: x.sum(), ()),
    "weighted": (lambda x: x.flatten() @ torch.ones(60), ()),
    "cumulated": (lambda x: x.cumsum(0).mean(), ()),
    "two ways": (lambda x: x.sum((0, 1)).mean() + x.sum(2).mean(), (0, 1, 2)),
}


@pytest.mark.parametrize(("do", "apart"), APART.values(), ids=APART)
def test_the_axes_that_stay_apart_are_known(do, apart):
    uses = Uses.of(do(X.exp()))
    (node,) = (x for x in uses.nodes if name_of(x) == "Exp")
    assert tuple(axis for axis in range(3) if lead_to_the_loss(uses, node, (axis,))) == apart


def test_several_axes_have_to_stay_apart_on_one_way():
    made = X.exp()
    uses = Uses.of(made.sum(0).mean() + made.sum(1).mean())
    (node,) = (x for x in uses.nodes if name_of(x) == "Exp")
    assert lead_to_the_loss(uses, node, (0, 2))
    assert not lead_to_the_loss(uses, node, (0, 1))


def test_a_sum_will_do_where_it_is_asked_for():
    uses = Uses.of(X.exp().sum())
    (node,) = (x for x in uses.nodes if name_of(x) == "Exp")
    assert lead_to_the_loss(uses, node, (0, 1, 2), or_sum=True)
