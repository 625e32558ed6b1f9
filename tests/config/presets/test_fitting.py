"""The preset that fits is told by a model's modules."""

import pytest
import torch
from torch import nn

from taiyi_fx.config.presets import fitting


class Named(nn.Module):
    """Parts under given names."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)


def convolutions():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Linear(4, 2))


def blocks():
    return nn.Sequential(*(nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.Linear(4, 4)) for _ in range(3)))  # fmt: skip


def attention():
    return nn.TransformerEncoderLayer(8, 2, 16)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (attention, "transformer"),
        (blocks, "transformer"),
        (lambda: Named(patches=nn.Conv2d(3, 8, 4), block=attention()), "transformer"),
        (convolutions, "convolutional"),
        (lambda: nn.Conv1d(2, 2, 1), "convolutional"),
        (lambda: Named(words=nn.Embedding(9, 4), lstm=nn.LSTM(4, 4)), "recurrent"),
        (lambda: nn.GRUCell(2, 2), "recurrent"),
        (lambda: Named(block=attention(), experts=nn.ModuleList([nn.Linear(2, 2)])), "experts"),
        (lambda: Named(block=attention(), lora_A=nn.Linear(2, 2)), "adapters"),
        (lambda: Named(generator=convolutions(), discriminator=convolutions()), "gan"),
        (lambda: Named(G=nn.Linear(2, 2), D=nn.Linear(2, 2)), "gan"),
        (lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)), "mlp"),
        (lambda: nn.Linear(2, 2), "mlp"),
        (nn.ReLU, "mlp"),
        (nn.Module, "mlp"),
        (lambda: nn.LazyLinear(2), "mlp"),
    ],
)
def test_the_kind_of_a_model(make, expected):
    assert fitting(make()).name == expected


def test_a_parameter_of_an_adapter_is_enough():
    model = Named(block=attention())
    model.block.lora_down = nn.Parameter(torch.ones(2))
    assert fitting(model).name == "adapters"
