"""Views that exchange two sizes on the way to a loss."""

import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx


class Mixed(nn.Module):
    def __init__(self, *, is_torn):
        super().__init__()
        self.is_torn, self.body, self.head = is_torn, nn.Linear(6, 8), nn.Linear(8, 5)

    def forward(self, x):
        x = self.body(x)
        return self.head(x.view(8, len(x)).t() if self.is_torn else x)


def found_in(model):
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(model, {"Linear": ["OutputRMS"]})
    for step in range(3):
        loss = F.cross_entropy(watched(torch.randn(12, 6)), torch.randint(5, (12,)))
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
    return [found for found in watched.monitor.findings if found.kind == "torn_view"]


def test_a_view_in_the_place_of_a_transpose_is_named_with_what_comes_before_it():
    (found,) = found_in(Mixed(is_torn=True))
    assert (found.severity, found.module) == ("warning", "body")
    assert "of shape (12, 8), is viewed as (8, 12)" in found.text


def test_a_model_without_one_has_none():
    assert found_in(Mixed(is_torn=False)) == []
