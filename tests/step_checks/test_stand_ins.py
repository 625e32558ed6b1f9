"""Copies that stand in for what models hold."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from taiyi_fx.step_checks.stand_ins import learned, stand_ins


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 4, batch_first=True)
        self.norm = nn.BatchNorm1d(4)
        self.tied = weight_norm(nn.Linear(4, 4))
        self.again = nn.Linear(4, 4)
        self.again.bias = self.tied.bias
        self.table = torch.rand(4)

    def forward(self, x):
        y = self.lstm(x)[0][:, -1]
        return self.again(self.tied(self.norm(y))) * self.table


def test_everything_is_of_the_type_and_then_as_before():
    model = Model()
    x = torch.rand(3, 2, 4)
    expected = model.eval()(x)
    held = {name: (id(p), p.data_ptr()) for name, p in model.named_parameters()}
    flat = [w.data_ptr() for w in model.lstm._flat_weights]
    with stand_ins({"": model}, torch.float64) as copies:
        assert {p.dtype for p in model.parameters()} == {torch.float64}
        assert {id(p) for p in model.parameters()}.isdisjoint(i for i, _ in held.values())
        assert model.again.bias is model.tied.bias
        assert copies[held["tied.bias"][0]] is model.tied.bias
        found = model(x.double())
        assert found.dtype == torch.float64
        with torch.no_grad():
            for p in model.parameters():
                p.zero_()
    assert torch.equal(model(x), expected)
    assert torch.allclose(found.float(), expected, atol=1e-6)
    assert {name: (id(p), p.data_ptr()) for name, p in model.named_parameters()} == held
    assert [w.data_ptr() for w in model.lstm._flat_weights] == flat
    assert model.table.dtype == torch.float32


def test_models_that_share_a_module_share_its_copy():
    shared = nn.Linear(2, 2)
    one, other = nn.Sequential(shared), nn.Sequential(shared, nn.ReLU())
    before = shared.weight
    with stand_ins({"": one, "other": other}, None):
        assert one[0].weight is other[0].weight
        assert one[0].weight is not before
    assert shared.weight is before


def test_they_go_if_the_body_raises():
    model = nn.Linear(2, 2)
    before = model.weight
    with pytest.raises(ZeroDivisionError), stand_ins({"": model}, torch.float64):
        raise ZeroDivisionError
    assert model.weight is before


def test_what_is_frozen_is_not_learned():
    model = Model()
    model.lstm.requires_grad_(requires_grad=False)
    names = [*learned(model)]
    assert "norm.weight" in names
    assert names.count("tied.bias") == 1
    assert "again.bias" not in names  # the same as the other
    assert not any(name.startswith("lstm") for name in names)


def test_a_script_module_keeps_its_own():
    model = nn.Sequential(torch.jit.script(nn.Linear(2, 2)), nn.Linear(2, 2))
    before = {name: (p.data_ptr(), p.clone()) for name, p in model.named_parameters()}
    assert [*learned(model)] == ["1.weight", "1.bias"]
    with stand_ins({"": model}, torch.float64):
        assert model[0].weight.dtype == torch.float32
        assert model[1].weight.dtype == torch.float64
    for name, p in model.named_parameters():
        assert p.data_ptr() == before[name][0]
        assert torch.equal(p, before[name][1])
