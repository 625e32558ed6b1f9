"""Truths of a device."""

import math

import torch

from taiyi_fx.recorder.replay.flags import NonFiniteFlag, largest


def flag(*numbers, nan_alone=False):
    return bool(NonFiniteFlag([torch.tensor(x) for x in numbers], nan_alone=nan_alone))


def test_what_is_not_finite_is_flagged():
    assert not flag()
    assert not flag(1.0, -2.0)
    assert flag(1.0, math.inf)
    assert flag(math.nan, 1.0, nan_alone=True)
    assert not flag(math.inf, -math.inf, nan_alone=True)


def test_what_is_finite_is_known_to_be_so_and_nothing_is_not():
    of = {x: NonFiniteFlag([torch.tensor(x)], nan_alone=False) for x in (1.0, math.inf)}
    assert of[1.0].is_known_to_be_finite
    assert not of[math.inf].is_known_to_be_finite
    assert not NonFiniteFlag([], nan_alone=False).is_known_to_be_finite


def test_the_largest_element_is_nan_where_one_is():
    assert largest(torch.tensor([1.0, 3.0])) == 3
    assert largest(torch.tensor([[1.0, math.nan], [2.0, 3.0]])).isnan()
    for x in (torch.arange(3), torch.empty(0), torch.ones(2).to_sparse()):
        assert largest(x) is None
