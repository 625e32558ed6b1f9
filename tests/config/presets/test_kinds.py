"""Kinds of modules are told by what a module is and holds."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from taiyi_fx.config.presets import kinds


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.inner = nn.Parameter(torch.ones(3)), nn.ReLU()


MODEL = nn.Sequential(
    nn.Embedding(3, 4),
    nn.Linear(4, 4),
    nn.LSTM(4, 4),
    nn.ReLU(),
    nn.Identity(),
    nn.BatchNorm1d(4),
    nn.BatchNorm1d(4, track_running_stats=False),
    Own(),
    parametrizations.weight_norm(nn.Linear(4, 4)),
    nn.Linear(4, 4).requires_grad_(False),
    nn.Linear(4, 4, dtype=torch.bfloat16),
    nn.Linear(4, 4, dtype=torch.float16).requires_grad_(False),
    nn.LayerNorm(4, dtype=torch.bfloat16),
)


def found(fits):
    return [name for name, module in MODEL.named_modules() if fits(name, module)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (kinds.is_leaf, ["0", "1", "2", "3", "5", "6", "7.inner", "8", "9", "10", "11", "12"]),
        (kinds.has_weight, ["0", "1", "5", "6", "8", "9", "10", "11", "12"]),
        (kinds.trains_weight, ["0", "1", "5", "6", "10", "12"]),
        (kinds.trains_half, ["10", "12"]),
        (kinds.has_other_parameters, ["2", "7"]),
        (kinds.takes_numbers, ["1", "2", "5", "6", "8", "9", "10", "11", "12"]),
        (kinds.is_rectifier, ["3", "7.inner"]),
        (kinds.is_batch_norm, ["5"]),
        (kinds.is_model, [""]),
    ],
)
def test_each_kind_is_these_modules(kind, expected):
    assert found(kind) == expected
