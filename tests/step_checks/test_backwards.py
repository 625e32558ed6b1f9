"""Gradients of some parameters, and of nothing else."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from taiyi_fx.step_checks.backwards import backward, nodes


def test_parameters_get_their_gradient_and_others_keep_what_they_had():
    own, other, third = (torch.ones(2, requires_grad=True) for _ in range(3))
    kept = torch.full((2,), 7.0)
    other.grad = kept
    own.grad = torch.ones(2)
    backward((own * other * third).sum() * 3, [own])
    assert torch.equal(own.grad, torch.full((2,), 3.0))
    assert other.grad is kept
    assert torch.equal(kept, torch.full((2,), 7.0))
    assert third.grad is None


def test_what_the_loss_does_not_depend_on_has_none():
    own = torch.ones(2, requires_grad=True)
    own.grad = torch.ones(2)
    backward(torch.ones(2, requires_grad=True).sum(), [own])
    assert own.grad is None
    backward(torch.ones(()), [own])
    assert own.grad is None


def test_a_reentrant_checkpoint_is_seen_through():
    layer = nn.Linear(2, 2)
    x = torch.ones(1, 2, requires_grad=True)
    backward(checkpoint(layer, x, use_reentrant=True).sum(), [layer.weight])
    assert torch.equal(layer.weight.grad, torch.ones(2, 2))
    assert x.grad is None


def test_each_node_comes_once():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    names = [node.name() for node in nodes((y + y * y).sum())]
    assert sorted(names) == [
        "AddBackward0",
        "MulBackward0",
        "MulBackward0",
        "SumBackward0",
        "torch::autograd::AccumulateGrad",
    ]
    assert [*nodes(torch.ones(1))] == []
