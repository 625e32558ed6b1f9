"""The calls of a model: a loss that it returns is kept for who asks for it."""

import warnings

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.watch.returned_loss import ReturnedLoss


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 1)

    def forward(self, x):
        return {"loss": self.fc(x).square().mean(), "logits": x}


def test_the_loss_that_a_model_returns_is_kept_once_it_is_asked_for():
    model = taiyi_fx.instrument(Model(), {"fc": ["OutputNorm"]})
    x = torch.ones(2, 3)
    model(x)
    assert model.monitor.returned_loss() is None
    losses = [model(k * x)["loss"] for k in range(3)]
    with torch.no_grad():
        model(5 * x)
    model.eval()(5 * x)
    kept = model.monitor.returned_loss()
    assert kept.grad_fn is None
    assert torch.equal(kept, (losses[0] + losses[1] + losses[2]).detach() / 3)
    assert model.monitor.returned_loss() is None


def test_it_is_kept_of_compiled_models_too():
    model = taiyi_fx.instrument(Model(), {"fc": ["OutputNorm"]})
    model.monitor.returned_loss()
    compiled = torch.compile(model, backend="eager")
    for step in range(3):
        loss = compiled(torch.ones(2, 3))["loss"]
        loss.backward()
        assert torch.equal(model.monitor.returned_loss(), loss.detach())
        model.monitor.track(step)


def test_what_cannot_be_kept_is_told_once_and_ends_no_training(monkeypatch):
    """As losses on two devices, which cannot be added."""

    def fails(self, returned, *, is_share=False):
        raise RuntimeError("two devices")

    monkeypatch.setattr(ReturnedLoss, "add", fails)
    model = taiyi_fx.instrument(Model(), {"fc": ["OutputNorm"]})
    model.monitor.returned_loss()
    with pytest.warns(taiyi_fx.MonitorWarning, match="two devices"):
        model(torch.ones(2, 3))["loss"].backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(torch.ones(2, 3))["loss"].backward()
    model = taiyi_fx.instrument(Model(), {"fc": ["OutputNorm"]}, strict=True)
    model.monitor.returned_loss()
    with pytest.raises(RuntimeError, match="two devices"):
        model(torch.ones(2, 3))
