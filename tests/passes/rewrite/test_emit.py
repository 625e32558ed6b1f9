"""Graphs as Python functions."""

import torch
from torch import nn

from tests.passes.rewrite.given import probed, ran


def test_emitted_code_calls_each_modules_own_forward():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
    graph, _ = probed(model, ["0", "1", "2"])
    x = torch.randn(3, 4)
    assert torch.equal(ran(graph, model, x), model(x))
