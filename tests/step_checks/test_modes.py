"""Functions that are as in training in evaluation mode."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from tests.step_checks import steps


class Model(nn.Module):
    def __init__(self, between, *parts):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(6, 16), nn.Linear(16, steps.CLASSES)
        self.between, self.parts = between, parts

    def forward(self, x):
        return self.last(self.between(self, self.first(x)))


def attend(p_of):
    def attended(model, x):
        q = x[:, None, None]
        return F.scaled_dot_product_attention(q, q, q, dropout_p=p_of(model))[:, 0, 0]

    return attended


WRONG = {
    "dropout": lambda model, x: F.dropout(x, 0.5),
    "dropout by position": lambda model, x: F.dropout(x, 0.5, True),
    "another dropout": lambda model, x: F.alpha_dropout(x, 0.5, training=True),
    "attention": attend(lambda model: 0.1),
    "batch norm in a list": lambda model, x: model.parts[0](x),
}
RIGHT = {
    "dropout": lambda model, x: F.dropout(x, 0.5, model.training),
    "dropout of nothing": lambda model, x: F.dropout(x, 0.0),
    "another dropout": lambda model, x: F.alpha_dropout(x, 0.5),
    "attention": attend(lambda model: 0.1 if model.training else 0.0),
    "batch norm without averages": lambda model, x: F.batch_norm(x, None, None, training=True),
}


def unswitched(between):
    model = Model(between, nn.BatchNorm1d(16))
    found = taiyi_fx.step_check(model, lambda x, y: F.cross_entropy(model(x), y), *steps.batch())
    assert "modes" in found.looked_at
    return [one for one in found if one.kind == "unswitched_mode"]


@pytest.mark.parametrize("name", WRONG)
def test_what_is_as_in_training_is_named_with_its_line(name):
    (one,) = unswitched(WRONG[name])
    code = WRONG[name].__code__
    line = code.co_firstlineno + (2 if name == "attention" else 0)
    assert f"test_modes.py:{line} is as in training" in one.text


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_switched_is_left_in_peace(name):
    assert unswitched(RIGHT[name]) == []


def test_modules_of_torch_are_switched():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 16, 0.1, batch_first=True)
    model = nn.Sequential(nn.Linear(6, 16), nn.Unflatten(0, (-1, 1)), layer, nn.Flatten())
    model.append(nn.Linear(16, steps.CLASSES))
    found = taiyi_fx.step_check(model, lambda x, y: F.cross_entropy(model(x), y), *steps.batch())
    assert found == []
