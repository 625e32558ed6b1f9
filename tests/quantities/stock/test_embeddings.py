"""Indices that an embedding is given."""

import pytest
import torch
from torch import nn

import taiyi_fx


@pytest.mark.parametrize(("index", "rate"), [(0, 0.5), (2, 0.25), (7, 0.0)])
def test_the_rate_is_that_of_samples_with_padding_over_micro_batches(index, rate):
    cfg = {"": [["PaddingRate", "every(1)", {"index": index}]]}
    watched = taiyi_fx.instrument(nn.Embedding(9, 3), cfg)
    for x in ([[0, 1, 2, 0], [1, 1, 3, 3]], [[1, 2, 3, 4]]):
        watched(torch.tensor(x)).sum().backward()
    watched.monitor.track(0)
    assert watched.monitor.get_output()[""]["PaddingRate"][0] == pytest.approx(rate)
