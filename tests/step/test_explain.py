"""Why a series has no value: every reason has its words."""

import warnings

import pytest
import torch
from torch import nn

import taiyi_fx


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.frozen = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.frozen.requires_grad_(False)
        self.bn = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.frozen(self.a(x))


CFG = {
    "a": ["InputSndNorm", ["InputMean", "at_steps(5)"], "UpdateRatio", ["RankMe", "linear(2, 1)"]],
    "b": ["InputSndNorm"],
    "frozen": ["WeightGradNorm", "OutputGradCorrelation"],
}


@pytest.fixture
def monitor():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        model = taiyi_fx.instrument(Model(), CFG)
        model(torch.randn(4, 3)).sum().backward()
        model.monitor.track(0)
    return model.monitor


@pytest.mark.parametrize(
    ("module", "quantity", "text"),
    [
        ("a", "InputSndNorm", "its last value is that of step 0; on linear(0, 0) it is next due at step 1"),
        ("a", "InputMean", "it has no value yet; on at_steps(5) it is next due at step 5"),
        ("a", "RankMe", "on linear(2, 1) it is next due at step 1"),
        ("a", "RankMe.N", "RankMe of 'a': it has no value yet"),
        ("a", "UpdateRatio", "UpdateRatio.bias of 'a': it had none when it was last due: this is the first due step"),
        ("a", "UpdateRatio.weight", "this is the first due step"),
        ("b", "InputSndNorm", "the module was not called in a training forward"),
        ("frozen", "WeightGradNorm", "weight is frozen (requires_grad is False)"),
        ("frozen", "OutputGradCorrelation", "there is no gradient before it"),
        ("bn", "InputSndNorm", "is not configured for 'bn': no key there lists it"),
        ("a", "MeanTID", "it is not available there, as 'a' (Linear) is not a BatchNorm"),
    ],
)  # fmt: skip
def test_each_reason_is_told(monitor, module, quantity, text):
    assert text in monitor.explain(module, quantity)


def test_what_comes_first_is_no_reason_to_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2)), {"0": ["UpdateRatio"]})
        model(torch.randn(4, 2)).sum().backward()
        model.monitor.track(0)
    assert model.monitor.missing[("0", "UpdateRatio.weight")].startswith("this is the first")
    model.monitor.track(1)
    assert model.monitor.missing == {}
    assert "its last value is that of step 1" in model.monitor.explain("0", "UpdateRatio.weight")


def test_an_unknown_name_gets_a_suggestion(monitor):
    with pytest.raises(LookupError, match="no module 'frzen'. Did you mean 'frozen'?"):
        monitor.explain("frzen", "InputMean")
    with pytest.raises(
        LookupError, match="no quantity is named 'InputMeen'. Did you mean 'InputMean'?"
    ):
        monitor.explain("a", "InputMeen")


def test_a_schedule_that_has_ended_and_a_pause_are_told(monitor):
    monitor._tracker.steps.next = 9
    assert "it is not due any more" in monitor.explain("a", "InputMean")
    monitor.pause()
    assert "(the monitor is paused)" in monitor.explain("a", "InputSndNorm")


def test_what_was_logged_is_known_too(monitor):
    monitor.log("loss", 1.0, step=3)
    assert monitor.explain("", "loss") == "loss of 'the model': its last value is that of step 3"
