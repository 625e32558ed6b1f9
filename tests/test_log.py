"""Losses and metrics: logged by hand, and read at a loss module."""

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx


def plain(cfg=None, **options):
    return taiyi_fx.instrument(
        nn.Sequential(nn.Linear(3, 2)), cfg or {"0": ["WeightNorm"]}, **options
    )


def test_a_logged_number_belongs_to_the_step_that_is_tracked_next():
    monitor = plain().monitor
    for step in range(3):
        monitor.log("loss", torch.tensor(float(step), requires_grad=True))
        monitor.log("lr", 0.1 * step)
        monitor.track(step)
    output = monitor.get_output()[""]
    assert output["loss"] == {0: 0.0, 1: 1.0, 2: 2.0}
    assert output["lr"] == pytest.approx({0: 0.0, 1: 0.1, 2: 0.2})


def test_what_is_logged_is_there_without_another_step():
    monitor = plain().monitor
    monitor.track(0)
    monitor.log("accuracy", 0.5, step=0)
    assert monitor.get_output()[""] == {"accuracy": {0: 0.5}}


def test_a_loss_that_changes_afterwards_was_logged_as_it_was():
    monitor, loss = plain().monitor, torch.ones(())
    monitor.log("loss", loss)
    loss.mul_(7)
    assert monitor.get_output()[""]["loss"] == {0: 1.0}


def test_evaluation_is_kept_apart_and_belongs_to_the_last_step():
    model = plain()
    for step in range(2):
        model.monitor.log("loss", float(step))
        model.monitor.track(step)
    model.eval()
    model.monitor.log("loss", 9.0)
    model.monitor.log("loss", 8.0, step=5, mode="train")
    assert model.monitor.get_output("eval")[""] == {"loss": {1: 9.0}}
    assert model.monitor.get_output("train")[""] == {"loss": {0: 0.0, 1: 1.0, 5: 8.0}}


def test_what_is_no_scalar_is_refused_with_its_shape():
    monitor = plain().monitor
    with pytest.raises(ValueError, match=r"'loss' has the shape \(4,\).*reduce it first"):
        monitor.log("loss", torch.ones(4))
    with pytest.raises(TypeError, match="'loss': the value has to be a number, not 'low'"):
        monitor.log("loss", "low")
    monitor.log("loss", torch.ones(1, 1))
    assert monitor.get_output()[""]["loss"] == {0: 1.0}


def test_a_name_that_a_quantity_of_the_model_has_is_refused():
    with pytest.raises(ValueError, match="'InputSndNorm' is a quantity of the model itself"):
        plain({"": ["InputSndNorm"]}).monitor.log("InputSndNorm", 1.0)


class WithLoss(nn.Module):
    def __init__(self, reduction="mean"):
        super().__init__()
        self.net, self.criterion = nn.Linear(3, 2), nn.CrossEntropyLoss(reduction=reduction)

    def forward(self, x, y):
        return {"loss": self.criterion(self.net(x), y), "scores": self.net(x)}


def test_a_loss_module_is_a_target_in_training_and_evaluation_apart():
    model = taiyi_fx.instrument(WithLoss(), {"criterion": ["Loss"], "": [["Loss", "every(1)", {"tensor": "loss"}]]}, record_eval=True)  # fmt: skip
    x, y = torch.randn(4, 3), torch.tensor([0, 1, 1, 0])
    losses = []
    for part in (slice(0, 2), slice(2, 4)):
        loss = model(x[part], y[part])["loss"]
        loss.backward()
        losses.append(loss.item())
    model.eval()
    expected = model(x, y)["loss"].item()
    model.monitor.track(0)
    for module in ("criterion", ""):
        found = model.monitor.get_output()[module]["Loss"]
        assert found == pytest.approx({0: sum(losses) / 2})
        assert model.monitor.get_output("eval")[module]["Loss"] == pytest.approx({0: expected})


def test_what_cannot_be_a_series_is_refused_where_it_is_logged():
    monitor = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["InputMean"]}).monitor
    with pytest.raises(TypeError, match="the name of a series is a text, not 3"):
        monitor.log(3, 1.0)
    with pytest.raises(ValueError, match="mode is 'train' or 'eval', not 'val'"):
        monitor.log("a", 1.0, mode="val")
    with pytest.raises(ValueError, match="'a': 1000.* has more than 64 bits"):
        monitor.log("a", 10**30)


@pytest.mark.parametrize("number", [2**60 + 1, np.int64(2**60 + 1), -(2**63)])
def test_whole_numbers_keep_their_digits(number):
    monitor = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["InputMean"]}).monitor
    monitor.log("tokens", number)
    assert monitor.records[0].value == int(number)


def test_nothing_is_logged_while_paused():
    monitor = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["InputMean"]}).monitor
    monitor.pause()
    monitor.log("a", 1.0)
    monitor.resume()
    assert not monitor.records
