"""The roots of backward."""

import pytest
import torch

from taiyi_fx.recorder.replay.roots import Roots


@pytest.mark.parametrize(
    "backward",
    [
        lambda y, x: y.backward(),
        lambda y, x: torch.autograd.backward(y),
        lambda y, x: torch.autograd.backward(tensors=[y]),
        lambda y, x: torch.autograd.grad(y, x),
        lambda y, x: torch.autograd.grad(outputs=(y,), inputs=x),
    ],
)
def test_each_way_of_backward_is_seen_once(backward):
    x = torch.ones(2, requires_grad=True)
    y = (x * 2).sum()
    with Roots() as roots:
        backward(y, x)
    assert [root is y for root in roots.found] == [True]


def test_forwards_have_none():
    with Roots() as roots:
        torch.ones(2, requires_grad=True).sum()
    assert roots.found == []


def test_a_backward_that_fails_has_not_ended():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise KeyError("within")

    x = torch.ones(2, requires_grad=True)
    with Roots() as roots:
        x.sum().backward()
        assert roots.has_ended
        with pytest.raises(KeyError):
            Fails.apply(x).sum().backward()
    assert len(roots.found) == 2
    assert not roots.has_ended
