"""A training loop in which values are missing at every step is told what to do, once."""

import warnings

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import MonitorWarning

NAMED = {"Linear": ["OutputRMS", "WeightGradNorm"]}


def made(cfg=None, **options):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.01)
    return plain, taiyi_fx.instrument(plain, cfg, optimizer=optimizer, **options), optimizer


def backward(called):
    called(torch.randn(5, 4)).square().mean().backward()


def warned(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(w.message) for w in caught if w.category is MonitorWarning]


def trained(cfg=None, *, calls_plain, steps=8):
    plain, model, optimizer = made(cfg)

    def run():
        for step in range(steps):
            backward(plain if calls_plain else model)
            model.monitor.track(step)
            optimizer.step()
            optimizer.zero_grad()

    return warned(run), model


@pytest.mark.parametrize("cfg", [None, NAMED])
def test_calls_of_the_plain_model_are_told_once_and_findings_say_so(cfg):
    (text,), model = trained(cfg, calls_plain=True)
    assert text.startswith("the instrumented model was not called, though its parameters have grad")
    assert "instrumented(x)" in text
    assert "no findings in" in repr(model.monitor.findings)
    assert text in repr(model.monitor.findings)
    assert text in model.monitor.explain("0", "OutputRMS")


@pytest.mark.parametrize("cfg", [None, NAMED])
def test_calls_of_the_instrumented_model_are_not(cfg):
    texts, model = trained(cfg, calls_plain=False)
    assert texts == []
    assert model.monitor.findings.remark == ""


def test_once_the_instrumented_model_is_called_findings_say_it_no_more():
    plain, model, _ = made(NAMED)
    backward(plain)
    with pytest.warns(MonitorWarning, match="the instrumented model was not called"):
        model.monitor.track(0)
    assert model.monitor.findings.remark
    backward(model)
    model.monitor.track(1)
    assert model.monitor.findings.remark == ""


def test_weights_alone_need_no_call():
    assert trained({"Linear": ["WeightNorm"]}, calls_plain=True)[0] == []


def test_steps_without_gradients_need_no_call():
    _, model, _ = made()
    assert warned(lambda: [model.monitor.track(step) for step in range(8)]) == []


def test_a_part_that_is_rarely_used_is_not_told_of_where_gradients_are_left_from_its_last_use():
    _, model, _ = made()

    def run():
        for step in range(12):
            if step % 6 == 0:
                backward(model)
            model.monitor.track(step)

    assert warned(run) == []


def test_numbers_logged_by_hand_need_no_call():
    plain, model, _ = made({})
    backward(plain)

    def run():
        for step in range(8):
            model.monitor.log("loss", 1.0)
            model.monitor.track(step)

    assert warned(run) == []


def test_evaluations_of_a_model_that_was_trained_before_are_not_told_of_with_a_preset():
    plain, model, _ = made()
    backward(plain)
    model.eval()

    def run():
        for step in range(8):
            model(torch.randn(5, 4))
            model.monitor.track(step)

    assert warned(run) == []


def test_evaluations_alone_say_how_they_are_read():
    _, model, _ = made({"0": ["OutputRMS"]})
    with torch.no_grad():
        model(torch.randn(5, 4))
    with pytest.warns(MonitorWarning, match="evaluation alone, which is read with instrument.*rec"):
        model.monitor.track(0)


def test_an_evaluation_beside_training_is_no_reason():
    class Apart(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.a(x) if x is not None else self.b(x)

    model = taiyi_fx.instrument(Apart(), {"a": ["OutputRMS"], "b": ["OutputRMS"]})
    with torch.no_grad():
        model(torch.randn(5, 4))
    backward(model)
    with pytest.warns(
        MonitorWarning, match="'b': the module was not called in a training forward "
    ):
        model.monitor.track(0)


def late(cfg):
    _, model, optimizer = made(cfg)

    def run():
        for step in range(8):
            backward(model)
            optimizer.step()
            optimizer.zero_grad()
            model.monitor.track(step)

    return warned(run), model


def test_a_track_after_zero_grad_is_told_once_with_a_preset():
    (text,), model = late(None)
    assert text.startswith("backward ran, but no parameter has a gradient when track is called")
    assert text in repr(model.monitor.findings)


def test_a_track_after_zero_grad_is_told_once_of_what_is_named():
    (text,), _ = late({"0": ["WeightGradNorm"]})
    assert "no gradient reached weight; was track called after zero_grad()?" in text


def test_input_gradients_alone_are_not_late():
    plain, _, _ = made()
    plain.requires_grad_(False)
    model = taiyi_fx.instrument(plain)

    def run():
        for step in range(8):
            model(torch.randn(5, 4, requires_grad=True)).sum().backward()
            model.monitor.track(step)

    assert warned(run) == []
