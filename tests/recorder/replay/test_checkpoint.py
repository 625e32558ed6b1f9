"""States that steps begin from."""

import torch
from torch import nn

from taiyi_fx.recorder.replay.checkpoint import Key, capture, plain_values, tensors_of
from tests.recorder.replay.given import Net


def allocate(name, like):
    return torch.empty(like.shape, dtype=like.dtype)


def state_of(model, *optimizers, scaler=None):
    return capture(7, model, optimizers, scaler, allocate)


def trained(model):
    optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    model(torch.randn(4, 4)).sum().backward()
    optimizer.step()
    return optimizer


def test_it_has_copies_of_all_that_the_model_and_its_optimizer_hold():
    model = Net()
    optimizer = trained(model)
    state = state_of(model, optimizer)
    assert state.step == 7
    for name, x in model.state_dict().items():
        assert torch.equal(state.tensors[f"model.{name}"], x)
    held = optimizer.state[model.first.weight]
    assert torch.equal(state.tensors["optimizer.0.first.weight.exp_avg"], held["exp_avg"])
    (group,) = state.optimizers[0].groups
    assert group["lr"] == 0.1
    assert group["params"] == [name for name, _ in model.named_parameters()]
    assert isinstance(state.optimizers[0].states["first.weight"]["exp_avg"], Key)
    assert {name for name, _ in tensors_of(model, [optimizer])} == {*state.tensors}
    assert state.bytes == sum(x.nbytes for x in state.tensors.values())
    before = state.tensors["model.first.weight"].clone()
    with torch.no_grad():
        model.first.weight.add_(1)
    assert torch.equal(state.tensors["model.first.weight"], before)


def test_a_nan_is_named_and_an_inf_of_a_parameter_but_not_a_mask():
    model = Net()
    model.register_buffer("mask", torch.full((2,), -torch.inf))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    assert state_of(model, optimizer).first_non_finite() is None
    with torch.no_grad():
        model.last.weight[0, 0] = torch.inf
    assert state_of(model, optimizer).first_non_finite() == "model.last.weight"
    model.norm.running_var.fill_(torch.nan)
    assert state_of(model).first_non_finite() == "model.norm.running_var"


def test_parameters_that_are_not_the_models_have_no_name():
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)
    both = torch.optim.SGD([*model.parameters(), other.bias], 0.1)
    assert state_of(model, both).optimizers[0].groups[0]["params"] == ["weight", "bias", None]


def test_plain_values_are_numbers_texts_and_truths():
    model = Net()
    model.name, model.others = "net", [1]
    found = plain_values(model)
    assert (found["count"], found["at"], found["name"]) == (0, 3, "net")
    assert "others" not in found
    assert plain_values(model.drop)["training"] is True


def test_the_scaler_is_kept():
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.ones(()))
    assert state_of(nn.Linear(1, 1), scaler=scaler).scaler["scale"] == 8.0
