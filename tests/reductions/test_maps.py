"""The first channels of the first samples."""

import pytest
import torch

from taiyi_fx.reductions import Maps


def test_the_first_channels_of_the_first_samples_are_kept_over_micro_batches():
    x = torch.randn(5, 4, 3, 2)
    maps = Maps(samples=3, channels=2)
    state = maps.merge(maps.measure(x[:2]), maps.measure(x[2:]))
    assert torch.equal(maps.finish(state), x[:3, :2])


def test_channels_may_be_any_axis():
    x = torch.randn(2, 3, 2, 5)
    (kept,) = Maps(channels=4, feature_axis=-1).measure(x)
    assert torch.equal(kept, x.permute(0, 3, 1, 2)[:, :4])


def test_sizes_that_differ_make_no_picture():
    maps = Maps()
    with pytest.raises(ValueError, match="do not fit in one picture"):
        maps.merge(maps.measure(torch.zeros(1, 1, 2, 2)), maps.measure(torch.zeros(1, 1, 3, 2)))


def test_numbers_of_samples_and_channels_are_positive():
    with pytest.raises(ValueError, match="channels must be a positive whole number, not 0"):
        Maps(channels=0)
