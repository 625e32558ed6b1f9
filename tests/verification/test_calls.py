"""Calls of modules, counted by hooks."""

from __future__ import annotations

import torch
from torch import nn

import taiyi_fx


def test_a_shared_module_is_counted_at_each_call():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.again = self.fc

        def forward(self, x):
            return self.again(self.fc(x).relu())

    found = taiyi_fx.verify(Twice(), {"Linear": ["InputSndNorm", "OutputGradSndNorm"]},
                            torch.randn(3, 4), steps=3)  # fmt: skip
    assert found.ok
    assert found.calls == {"fc": (6, 6)}
    assert found.readings == 12
