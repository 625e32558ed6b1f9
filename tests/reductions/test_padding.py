"""Padding among indices."""

import torch

from taiyi_fx.reductions import Padding


def test_the_shares_are_those_of_samples_with_padding():
    x = torch.tensor([[3, 3, 1, 2], [1, 2, 4, 5], [3, 1, 1, 1]])
    reduction = Padding(3)
    found = reduction.finish(reduction.scale(reduction.measure(x), 0.5))
    assert (found.n, found.shares) == (2, 0.75)
    both = reduction.merge(reduction.measure(x), reduction.measure(x[1:]))
    assert reduction.finish(both) == (3, 1.0)


def test_a_tensor_without_elements_has_none():
    assert Padding().finish(Padding().measure(torch.zeros(0, 4))) == (0, 0.0)
    assert Padding().finish(Padding().measure(torch.zeros(2, 0))) == (0, 0.0)
    assert Padding().finish(Padding().measure(torch.tensor(0))) == (1, 1.0)
