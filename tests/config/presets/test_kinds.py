"""Kinds of modules are told by what a module is and holds."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from taiyi_fx.config.presets import kinds
from tests.quantities.test_known_layers import OfGpt2


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
    nn.Linear(4, 4, dtype=torch.float16),
    nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.ReLU()),
)


def found(fits):
    return [name for name, module in MODEL.named_modules() if fits(name, module)]


OWN = ["1", "5", "6", "8", "9", "10", "11", "12", "13", "14.0.0"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            kinds.is_leaf,
            [
                "0",
                "1",
                "2",
                "3",
                "5",
                "6",
                "7.inner",
                "8",
                *map(str, range(9, 14)),
                "14.0.0",
                "14.1",
            ],
        ),
        (kinds.has_weight, ["0", *OWN]),
        (kinds.trains_weight, ["0", "1", "5", "6", "10", "12", "13", "14.0.0"]),
        (kinds.trains_half, ["10", "12", "13"]),
        (kinds.trains_float16, ["13"]),
        (kinds.has_other_parameters, ["2", "7"]),
        (kinds.takes_numbers, ["1", "2", *OWN[1:]]),
        (kinds.is_rectifier, ["3", "7.inner", "14.1"]),
        (kinds.is_block, ["7", "14"]),
        (kinds.is_batch_norm, ["5"]),
        (kinds.is_model, [""]),
    ],
)
def test_each_kind_is_these_modules(kind, expected):
    assert found(kind) == expected


@pytest.mark.parametrize(
    ("module", "is_one"),
    [
        (nn.Linear(4, 8), True),
        (nn.Conv2d(3, 4, 3), True),
        (OfGpt2(4, 8), True),  # known by its code
        (nn.Linear(512, 512), False),
        (nn.Linear(4, 8).requires_grad_(False), False),
        (nn.LazyLinear(4), False),
        (nn.LayerNorm(4), False),
        (nn.Embedding(4, 8), False),
    ],
    ids=lambda given: type(given).__name__,
)
def test_small_matrices_are_trained_linear_layers_and_convolutions(module, is_one):
    assert kinds.is_small_matrix("fc", module) is is_one
