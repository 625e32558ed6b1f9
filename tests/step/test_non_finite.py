"""The first NaN or Inf of a step is named, in the order of execution."""

import warnings

import pytest
import torch
from torch import nn

import taiyi_fx

COUNTING = {nn.Module: ["NonFinite", "OutputGradNonFinite"]}


class Break(nn.Module):
    """Divides by zero, or makes a gradient infinite, where told to."""

    def __init__(self):
        super().__init__()
        self.how = "not"

    def forward(self, x):
        if self.how == "value":
            return x / torch.zeros_like(x)
        if self.how == "gradient":
            return x.abs().sqrt() * 0 + (x * 0).abs().sqrt() + x
        return x * 1


class Model(nn.Module):
    """Defined in another order than it runs in."""

    def __init__(self):
        super().__init__()
        self.last, self.third = nn.Linear(4, 4), Break()
        self.second, self.first = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.last(self.third(self.second(self.first(x))))


def run(how, compiled=False):
    model = taiyi_fx.instrument(Model(), COUNTING)
    model.third.how = how
    call = torch.compile(model, backend="aot_eager", fullgraph=True) if compiled else model
    call(torch.randn(3, 4)).sum().backward()
    return model.monitor


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_the_site_that_made_a_value_infinite_is_the_first(compiled):
    monitor = run("value", compiled)
    with pytest.warns(
        taiyi_fx.MonitorWarning, match="step 0: the first NaN or Inf is in the output of 'third'"
    ):
        monitor.track(0)
    values = [site for site in monitor.non_finite if site.place == "output"]
    assert [(s.step, s.module, s.count) for s in values] == [(0, "third", 12)]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_the_first_bad_gradient_is_that_nearest_to_the_loss(compiled):
    monitor = run("gradient", compiled)
    with pytest.warns(taiyi_fx.MonitorWarning, match="gradient of the output of 'second'"):
        monitor.track(0)
    assert [(s.place, s.module) for s in monitor.non_finite] == [("output_grad", "second")]
    output = monitor.get_output()
    assert output["third"]["OutputGradNonFinite"][0] == 0
    assert output["first"]["OutputGradNonFinite"][0] > 0


def test_it_is_warned_of_once_and_kept_for_each_step():
    model = taiyi_fx.instrument(Model(), COUNTING)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step, how in enumerate(["not", "value", "value"]):
            model.third.how = how
            model(torch.randn(3, 4)).sum().backward()
            model.monitor.track(step)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert [s.step for s in model.monitor.non_finite if s.place == "output"] == [1, 2]


def test_counts_of_nan_and_inf_are_kept_apart():
    monitor = run("value")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        monitor.track(0)
    found = monitor.get_output()["third"]
    assert found["NonFinite"][0] == found["NonFinite.NaN"][0] + found["NonFinite.Inf"][0] == 12


def test_the_value_comes_before_the_gradient_that_it_broke():
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2), Break(), nn.Linear(2, 2)), COUNTING)
    model[1].how = "value"
    model(torch.randn(3, 2)).sum().backward()
    with pytest.warns(taiyi_fx.MonitorWarning):
        model.monitor.track(0)
    assert [(s.place, s.module) for s in model.monitor.non_finite] == [("output", "1"), ("output_grad", "0")]  # fmt: skip


def test_a_site_of_the_model_itself_is_told_in_words():
    model = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["NonFinite"]})
    model(torch.full((1, 2), torch.inf)).sum().backward()
    with pytest.warns(taiyi_fx.MonitorWarning, match="is in the output of the model itself"):
        model.monitor.track(0)


def under_a_scaler(hows, scaler=None):
    """A run whose steps break where told to, and what it warned of."""
    model = taiyi_fx.instrument(Model(), COUNTING)
    scaler = scaler or torch.amp.GradScaler("cpu", init_scale=4.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step, how in enumerate(hows):
            model.third.how = how
            scaler.scale(model(torch.randn(3, 4)).sum()).backward()
            model.monitor.track(step, grad_scale=scaler)
    return model, [str(warning.message) for warning in caught]


def test_gradients_that_overflow_under_a_scaler_are_kept_but_not_warned_of():
    model, warned = under_a_scaler(["gradient", "not"])
    assert warned == []
    (site,) = model.monitor.non_finite
    assert (site.step, site.module, site.place, site.is_overflow) == (0, "second", "output_grad", True)  # fmt: skip
    assert str(site).startswith("step 0: under the loss scale, the first NaN or Inf is in the grad")


def test_the_first_value_after_gradients_overflowed_is_warned_of():
    model, warned = under_a_scaler(["gradient", "not", "gradient", "value", "value"])
    assert len(warned) == 1, warned
    assert warned[0].startswith("step 3: the first NaN or Inf is in the output of 'third'")
    sites = [(s.step, s.place, s.is_overflow) for s in model.monitor.non_finite]
    gradient, value = "output_grad", "output"
    assert sites[:4] == [
        (0, gradient, True), (2, gradient, True), (3, value, False), (3, gradient, False)
    ]  # fmt: skip


@pytest.mark.parametrize("scale", [None, 4.0, torch.amp.GradScaler("cpu", enabled=False)])
def test_bad_gradients_without_a_scaler_that_leaves_steps_out_are_warned_of(scale):
    monitor = run("gradient")
    with pytest.warns(taiyi_fx.MonitorWarning, match="gradient of the output of 'second'"):
        monitor.track(0, grad_scale=scale)
    assert not monitor.non_finite[0].is_overflow
