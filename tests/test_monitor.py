"""Honest edges: what has no value says why, and what is counted is what should be."""

import copy
import gc
import math
import re
import threading
import warnings
import weakref
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import taiyi_fx
from taiyi_fx import MonitorWarning
from taiyi_fx.watch import Watch
from tests.examples import some_or_all
from tests.writers.interrupts import chosen, instructions_of, interrupted_at


def mlp():
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(inplace=True), nn.Linear(5, 2))


NORMS = ["InputSndNorm", "OutputGradSndNorm"]


def step(model, x, at=0, **options):
    model.zero_grad()
    model(x).square().mean().backward()
    model.monitor.track(at, **options)


def read(model, module="0"):
    return {q: v[max(v)] for q, v in model.monitor.get_output().get(module, {}).items()}


def test_values_are_recorded_by_module_quantity_and_step():
    model = taiyi_fx.instrument(
        mlp(), {"0": [["InputSndNorm", "linear(2, 1)"]], "2": ["WeightNorm"]}
    )
    xs = [torch.randn(3, 4) for _ in range(4)]
    for at, x in enumerate(xs):
        step(model, x, at)
    output = model.monitor.get_output()
    assert list(output["0"]["InputSndNorm"]) == [1, 3]
    assert output["0"]["InputSndNorm"][3] == pytest.approx(xs[3].norm().item())
    assert list(output["2"]["WeightNorm"]) == [0, 1, 2, 3]


def test_an_eval_forward_before_track_changes_nothing():
    model = taiyi_fx.instrument(mlp(), {"0": NORMS})
    x = torch.randn(3, 4)
    model(x).sum().backward()
    model.eval()
    model(100 * x)
    with torch.no_grad():
        model(100 * x)
        model.train()(100 * x)
    with torch.inference_mode():
        model(100 * x)
    model.monitor.track(0)
    assert read(model)["InputSndNorm"] == pytest.approx(x.norm().item())


def test_eval_forwards_are_kept_apart_when_asked_for():
    model = taiyi_fx.instrument(mlp(), {"0": NORMS}, record_eval=True)
    x = torch.randn(3, 4)
    model(x).sum().backward()
    with torch.no_grad():
        model.eval()(10 * x)
    model.train().monitor.track(0)
    train, evaluation = model.monitor.get_output(), model.monitor.get_output("eval")
    assert train["0"]["InputSndNorm"][0] == pytest.approx(x.norm().item())
    assert evaluation["0"]["InputSndNorm"][0] == pytest.approx(10 * x.norm().item())
    assert "OutputGradSndNorm" not in evaluation["0"]


def test_a_module_called_twice_has_two_series():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return self.fc(10 * self.fc(x))

    model = taiyi_fx.instrument(Twice(), {"fc": [*NORMS, "WeightNorm"]})
    x = torch.randn(3, 4)
    step(model, x)
    assert read(model, "fc")["InputSndNorm"] == pytest.approx(x.norm().item())
    second = read(model, "fc@1")
    assert second["InputSndNorm"] == pytest.approx(10 * model.fc(x).norm().item())
    assert set(second) == set(NORMS)


def test_a_frozen_weight_has_no_gradient_norm_and_says_so():
    model = taiyi_fx.instrument(mlp(), {"0": ["WeightGradNorm", "WeightNorm"]})
    model[0].weight.requires_grad_(False)
    text = r"WeightGradNorm of '0': weight is frozen \(requires_grad is False\)"
    with pytest.warns(MonitorWarning, match=text):
        step(model, torch.randn(3, 4))
    assert list(read(model)) == ["WeightNorm"]
    assert list(model.monitor.missing) == [("0", "WeightGradNorm")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(model, torch.randn(3, 4), 1)  # said once


def test_a_gradient_that_did_not_come_is_said():
    class Aside(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.aside = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.used(x), self.aside(x)

    model = taiyi_fx.instrument(Aside(), {"aside": ["OutputGradSndNorm", "WeightGradNorm"]})
    model(torch.randn(2, 4))[0].sum().backward()
    with pytest.warns(MonitorWarning) as caught:
        model.monitor.track(0)
    assert "OutputGradSndNorm of 'aside': no gradient reached it" in str(caught[0].message)
    assert "WeightGradNorm of 'aside': no gradient reached weight" in str(caught[0].message)
    assert not model.monitor.records


ZERO_GRAD = r"no gradient reached weight; was track called after zero_grad\(\)\?"


def test_gradients_that_were_cleared_before_track_are_asked_about():
    model = taiyi_fx.instrument(mlp(), {nn.Linear: ["WeightGradNorm", "WeightNorm"]})
    model(torch.randn(3, 4)).sum().backward()
    model.zero_grad()
    with pytest.warns(MonitorWarning, match=ZERO_GRAD):
        model.monitor.track(0)
    assert all("zero_grad" in why for why in model.monitor.missing.values())


def test_gradients_of_which_some_came_were_not_cleared():
    model = taiyi_fx.instrument(mlp(), {"0": ["WeightGradNorm"]})
    model(torch.randn(3, 4)).sum().backward()
    model.get_submodule("0").weight.grad = None
    with pytest.warns(MonitorWarning):
        model.monitor.track(0)
    assert model.monitor.missing == {("0", "WeightGradNorm"): "no gradient reached weight"}


def test_a_gradient_that_cannot_come_is_said_at_instrument():
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.b(self.a(x).detach())

    with pytest.warns(MonitorWarning, match="'a': no gradient can reach it"):
        taiyi_fx.instrument(Cut(), {"a": ["OutputGradSndNorm"], "b": ["OutputGradSndNorm"]})


def test_a_target_that_is_never_called_is_said_at_instrument_and_at_track():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.a(x)

    with pytest.warns(MonitorWarning, match="'unused': the model's forward never calls this"):
        model = taiyi_fx.instrument(Unused(), {nn.Linear: ["InputSndNorm", "WeightNorm"]})
    with pytest.warns(
        MonitorWarning,
        match="InputSndNorm of 'unused': the module was not called in a training forward",
    ):
        step(model, torch.randn(2, 4))
    assert read(model, "unused").keys() == {"WeightNorm"}


def test_an_attentions_output_projection_is_matched_but_never_called():
    model = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    model = taiyi_fx.instrument(model, {nn.Linear: ["InputSndNorm", "WeightNorm"]})
    with pytest.warns(MonitorWarning, match="InputSndNorm of 'self_attn.out_proj'"):
        step(model, torch.randn(2, 3, 4))
    assert read(model, "self_attn.out_proj").keys() == {"WeightNorm"}
    assert read(model, "linear1").keys() == {"InputSndNorm", "WeightNorm"}


def test_parts_called_on_their_own_are_read_where_that_is_asked_for():
    class Gan(nn.Module):
        def __init__(self):
            super().__init__()
            self.generator, self.critic = mlp(), nn.Sequential(nn.Linear(2, 1))

        def forward(self, z):
            return self.critic(self.generator(z))

    model = taiyi_fx.instrument(Gan(), {nn.Linear: NORMS})
    z = torch.randn(3, 4)
    model.generator(100 * z)
    with model.monitor.reading():
        fake = model.generator(z)
        loss = model.critic(fake).sum() + model.critic(2 * fake.detach()).sum()
    loss.backward()
    model.monitor.track(0)
    assert read(model, "generator.0")["InputSndNorm"] == pytest.approx(z.norm().item())
    assert read(model, "critic.0")["InputSndNorm"] == pytest.approx(fake.norm().item())
    assert read(model, "critic.0@1")["InputSndNorm"] == pytest.approx(2 * fake.norm().item())


def test_a_part_that_another_method_calls_is_not_said_to_be_never_called():
    class Autoencoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = mlp(), nn.Sequential(nn.Linear(2, 4))

        def forward(self, x):
            return self.encoder(x)

        def decode(self, z):
            return self.decoder(z)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = taiyi_fx.instrument(Autoencoder(), {nn.Linear: NORMS})
    x = torch.randn(3, 4)
    with model.monitor.reading():
        loss = model.decode(model.encoder(x)).sum()
    loss.backward()
    model.monitor.track(0)
    assert read(model, "decoder.0")["InputSndNorm"] == pytest.approx(model.encoder(x).norm().item())


@pytest.mark.parametrize("inner", [True, False], ids=["inside the model", "around the model"])
def test_the_second_run_of_a_checkpoint_does_not_count(inner):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = mlp(), nn.Linear(2, 2)

        def forward(self, x):
            run = checkpoint(self.body, x, use_reentrant=False) if inner else self.body(x)
            return self.head(run)

    plain = Checkpointed()
    model = taiyi_fx.instrument(plain, {nn.Linear: NORMS})
    x = torch.randn(3, 4)
    y = model(x) if inner else checkpoint(model, x, use_reentrant=False)
    y.square().sum().backward()
    model.monitor.track(0)
    grads = [p.grad.clone() for p in plain.parameters()]
    plain.zero_grad()
    plain(x).square().sum().backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(grads, plain.parameters(), strict=True))
    assert set(model.monitor.get_output()) == {"body.0", "body.2", "head"}
    assert read(model, "body.0")["InputSndNorm"] == pytest.approx(x.norm().item())
    assert set(read(model, "body.0")) == set(NORMS)


def test_values_are_those_of_the_true_loss_under_loss_scaling():
    cfg = {"0": [*NORMS, "WeightGradNorm", "OutputGradCovMaxEig", "BackwardOutput"]}
    plain, scaled = taiyi_fx.instrument(mlp(), cfg), mlp()
    scaled.load_state_dict(plain.state_dict())
    scaled = taiyi_fx.instrument(scaled, cfg)
    x = torch.randn(3, 4)
    step(plain, x)
    (scaled(x).square().mean() * 1024).backward()
    scaled.monitor.track(0, grad_scale=1024)
    for quantity, value in read(plain).items():
        assert torch.as_tensor(read(scaled)[quantity]) == pytest.approx(torch.as_tensor(value))


@pytest.mark.parametrize("unscale", [False, True])
def test_a_scaler_knows_whether_parameter_gradients_are_unscaled(unscale):
    plain = taiyi_fx.instrument(mlp(), {"0": [*NORMS, "WeightGradNorm"]})
    model = mlp()
    model.load_state_dict(plain.state_dict())
    model = taiyi_fx.instrument(model, {"0": [*NORMS, "WeightGradNorm"]})
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    x = torch.randn(3, 4)
    step(plain, x)
    scaler.scale(model(x).square().mean()).backward()
    if unscale:
        scaler.unscale_(optimizer)
    model.monitor.track(0, grad_scale=scaler)
    for quantity, value in read(plain).items():
        assert read(model)[quantity] == pytest.approx(value, rel=1e-5), quantity


def test_a_scaler_that_is_switched_off_scales_nothing():
    plain, model = (taiyi_fx.instrument(mlp(), {"0": [*NORMS, "WeightGradNorm"]}) for _ in "ab")
    model.load_state_dict(plain.state_dict())
    x = torch.randn(3, 4)
    step(plain, x)
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0, enabled=False)
    scaler.scale(model(x).square().mean()).backward()
    model.monitor.track(0, grad_scale=scaler)
    assert read(model) == read(plain)


def test_values_under_bfloat16_autocast_are_reduced_in_float32():
    model = taiyi_fx.instrument(mlp(), {"2": ["InputSndNorm", "InputCovMaxEig", "ForwardInput"]})
    with torch.autocast("cpu", torch.bfloat16):
        model(torch.randn(300, 4)).sum().backward()
    model.monitor.track(0)
    output = read(model, "2")
    x = output["ForwardInput"].double()
    assert output["ForwardInput"].dtype == torch.bfloat16
    assert output["InputSndNorm"] == pytest.approx(x.norm().item(), rel=1e-6)
    largest = torch.linalg.eigvalsh(torch.cov(x.T))[-1].item()
    assert output["InputCovMaxEig"] == pytest.approx(largest, rel=1e-5)


def test_at_announces_another_step():
    model = taiyi_fx.instrument(mlp(), {"0": [["InputSndNorm", "at_steps(100)"]]})
    x = torch.randn(3, 4)
    with model.monitor.at(100):
        model(x).sum().backward()
    model.monitor.track(100)
    assert model.monitor.get_output()["0"]["InputSndNorm"] == {100: pytest.approx(x.norm().item())}


def test_a_step_that_was_not_announced_says_what_to_do():
    model = taiyi_fx.instrument(mlp(), {"0": [["InputSndNorm", "at_steps(100)"]]})
    model(torch.randn(3, 4))
    text = "call track at every optimizer step, or run the forward inside `with monitor.at(step):`"
    with pytest.warns(MonitorWarning, match=re.escape(text)):
        model.monitor.track(100)


def test_tracking_some_steps_only_is_said_once():
    model = taiyi_fx.instrument(mlp(), {"0": [["InputSndNorm", "every(10)"]]})
    step(model, torch.randn(3, 4), 0)
    with pytest.warns(MonitorWarning, match="call track at every optimizer step"):
        step(model, torch.randn(3, 4), 10)
    step(model, torch.randn(3, 4), 20)  # a second warning would be an error
    assert list(model.monitor.get_output()["0"]["InputSndNorm"]) == [0]


def test_a_model_left_in_eval_mode_is_told_that_training_forwards_count():
    model = taiyi_fx.instrument(mlp(), {"0": ["InputSndNorm"]}).eval()
    model(torch.randn(3, 4))
    with pytest.warns(MonitorWarning, match="not called in a training forward"):
        model.monitor.track(0)


def test_start_step_prepares_the_first_forward():
    model = taiyi_fx.instrument(mlp(), {"0": [["InputSndNorm", "linear(10, 7)"]]}, start_step=7)
    step(model, torch.randn(3, 4), 7)
    assert list(model.monitor.get_output()["0"]["InputSndNorm"]) == [7]


def test_start_at_prepares_the_next_forward_and_forgets_what_was_read():
    probed = taiyi_fx.instrument(nn.Linear(2, 2), {nn.Linear: [["InputSndNorm", "at_steps(0, 7)"]]})
    probed(torch.ones(4, 2)).sum().backward()
    probed.monitor.start_at(7)
    assert probed.monitor.next_step == 7
    probed(torch.ones(2, 2)).sum().backward()
    probed.monitor.track(7)
    assert [(r.step, r.value) for r in probed.monitor.records] == [(7, 2.0)]


def test_a_training_may_begin_at_another_step_where_the_same_is_due():
    """A preset's first steps are all due, and a loop may count from 1."""
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    model = taiyi_fx.instrument(net, optimizer=optimizer)
    for number in (1, 2, 3):
        model.monitor.log("loss", 1.0)
        step(model, torch.randn(3, 4), number)
        optimizer.step()
    assert {r.step for r in model.monitor.records if r.quantity == "OutputRMS"} == {1, 2, 3}
    assert [r.step for r in model.monitor.records if r.quantity == "loss"] == [1, 2, 3]


@pytest.mark.parametrize("first", [0, 1, 7])
def test_a_number_logged_before_the_first_track_is_of_its_step(first):
    model = taiyi_fx.instrument(mlp(), {"0": ["WeightNorm"], "": ["LossSpike"]})
    for number in range(first, first + 40):
        model.monitor.log("loss", 1.0 + number)
        model.monitor.log("named", 2.0, step=number + 3)
        step(model, torch.randn(3, 4), number)
    found = model.monitor.get_output()[""]
    assert found["loss"] == {n: 1.0 + n for n in range(first, first + 40)}
    assert list(found["named"]) == [n + 3 for n in range(first, first + 40)]
    assert list(found["LossSpike"]) == list(range(first + 32, first + 40))  # behind 32 others


@pytest.mark.parametrize("at", [1, 5])
def test_start_at_another_step_forgets_what_spans_steps(at):
    probed = taiyi_fx.instrument(nn.Linear(2, 2), {nn.Linear: ["ParameterUpdateNorm"]})
    for step in (0, at):
        probed.monitor.start_at(step)
        probed(torch.ones(2, 2)).sum().backward()
        probed.monitor.track(step)
    steps = {r.step for r in probed.monitor.records}
    assert steps == ({1} if at == 1 else set())


def test_start_at_leaves_a_paused_monitor_paused():
    probed = taiyi_fx.instrument(nn.Linear(2, 2), {nn.Linear: ["InputSndNorm"]})
    probed.monitor.pause()
    probed.monitor.start_at(3)
    for step in (3, 4):
        probed(torch.ones(2, 2)).sum().backward()
        probed.monitor.track(step)
        probed.monitor.resume()
        probed.monitor.start_at(4)
    assert {r.step for r in probed.monitor.records} == {4}


@pytest.mark.parametrize("step", [-1, 1.5, None])
def test_a_step_to_start_at_that_is_none_is_said(step):
    probed = taiyi_fx.instrument(nn.Linear(2, 2), {nn.Linear: ["InputSndNorm"]})
    with pytest.raises(ValueError, match="step is a whole number of at least 0, not"):
        probed.monitor.start_at(step)


def test_pause_reads_nothing_and_resume_goes_on():
    model = taiyi_fx.instrument(mlp(), {"0": ["InputSndNorm", "WeightNorm"]})
    model.monitor.pause()
    assert not [m for m in model.modules() if "forward" in vars(m)]
    step(model, torch.randn(3, 4), 0)
    model.monitor.resume()
    step(model, torch.randn(3, 4), 1)
    assert list(model.monitor.get_output()["0"]["InputSndNorm"]) == [1]
    model.monitor.close()
    step(model, torch.randn(3, 4), 2)
    assert list(model.monitor.get_output()["0"]["WeightNorm"]) == [1]


def test_clean_mem_forgets_records_and_what_spans_steps():
    model = taiyi_fx.instrument(mlp(), {"0": ["WeightParamJump"]})
    step(model, torch.randn(3, 4), 0)
    with torch.no_grad():
        model[0].weight.neg_()
    model.monitor.clean_mem()
    assert model.monitor.get_output() == {}
    step(model, torch.randn(3, 4), 1)
    assert model.monitor.get_output()["0"]["WeightParamJump"] == {1: 0}


def test_a_quantity_that_fails_is_reported_once_by_name_and_training_goes_on():
    @taiyi_fx.quantity("fails_in_test", norm=taiyi_fx.output.norm)
    def fails_in_test(norm):
        raise ArithmeticError("no such luck")

    model = taiyi_fx.instrument(mlp(), {"0": [fails_in_test, "InputSndNorm"]})
    with pytest.warns(MonitorWarning, match="fails_in_test of '0': ArithmeticError: no such luck"):
        step(model, torch.randn(3, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(model, torch.randn(3, 4), 1)
    assert list(model.monitor.get_output()["0"]["InputSndNorm"]) == [0, 1]


def test_a_reading_that_fails_in_forward_or_backward_does_not_stop_training():
    class Sometimes(nn.Module):
        def forward(self, x):
            return x.sum()

    cfg = {"1": [["InputMean", "every(1)", {"reduce": "feature", "feature_axis": 3}],
                 ["OutputGradCovMaxEig", "every(1)", {"feature_axis": 2}]]}  # fmt: skip
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), Sometimes()), cfg)
    with pytest.warns(MonitorWarning, match="InputMean of '1': ValueError") as caught:
        step(model, torch.randn(3, 4))
    assert "OutputGradCovMaxEig of '1': ValueError" in str(caught[0].message)


def test_a_failed_reading_keeps_no_activation_alive():
    model = taiyi_fx.instrument(
        mlp(), {"0": [["InputMean", "every(1)", {"reduce": "feature", "feature_axis": 3}]]}
    )
    x = torch.randn(3, 4)
    alive = weakref.ref(x)
    with pytest.warns(MonitorWarning, match="the option feature_axis sets it"):
        step(model, x)
    model.zero_grad()
    del x
    gc.collect()
    assert alive() is None


def test_spectra_merge_under_autocast():
    model = taiyi_fx.instrument(mlp(), {"0": ["InputCovMaxEig"]})
    x = torch.randn(9, 4)
    with torch.autocast("cpu", torch.bfloat16):
        for part in x.split(3):
            model(part)
    model.monitor.track(0)
    assert read(model)["InputCovMaxEig"] == pytest.approx(
        torch.linalg.eigvalsh(torch.cov(x.T))[-1].item(), rel=1e-4
    )


def test_a_gradient_missing_at_a_second_call_is_said():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x, mask=None):
            if mask is not None:
                x = x * mask
            return self.fc(x) + self.fc(2 * x).detach()

    model = taiyi_fx.instrument(Twice(), {"fc": ["OutputGradSndNorm"]})
    with pytest.warns(MonitorWarning, match="OutputGradSndNorm of 'fc@1': no gradient reached it"):
        step(model, torch.randn(3, 4))
    assert list(model.monitor.get_output()) == ["fc"]


def test_a_window_that_failed_is_not_carried_on():
    @taiyi_fx.quantity("window_norms", window=True, x=taiyi_fx.input.raw)
    def window_norms(x):
        return x.square().sum()

    model = taiyi_fx.instrument(mlp(), {"0": [["window_norms", "linear(2, 1)"]]})
    step(model, torch.randn(3, 4), 0)
    with pytest.warns(MonitorWarning, match="window_norms of '0': RuntimeError"):
        step(model, torch.randn(2, 4), 1)
    step(model, torch.randn(3, 4), 2)
    step(model, torch.randn(3, 4), 3)
    assert list(model.monitor.get_output()["0"]["window_norms"]) == [3]


def test_sparse_values_reach_the_host():
    @taiyi_fx.quantity("sparse_in_test", norm=taiyi_fx.input.norm)
    def sparse_in_test(norm):
        return norm.reshape(1).to_sparse()

    model = taiyi_fx.instrument(mlp(), {"0": [sparse_in_test]})
    x = torch.randn(3, 4)
    step(model, x)
    assert read(model)["sparse_in_test"].item() == pytest.approx(x.norm().item())


def test_a_copy_to_the_host_that_fails_is_reported_by_name():
    @taiyi_fx.quantity("nowhere_in_test", norm=taiyi_fx.input.norm)
    def nowhere_in_test(norm):
        return torch.empty((), device="meta")

    model = taiyi_fx.instrument(mlp(), {"0": [nowhere_in_test]})
    with pytest.warns(MonitorWarning, match="nowhere_in_test of '0': NotImplementedError on the"):
        step(model, torch.randn(3, 4))


def test_what_flows_while_paused_is_not_recorded_later():
    model = taiyi_fx.instrument(mlp(), {"0": NORMS})
    loss = 100 * model(torch.randn(3, 4)).square().mean()
    model.monitor.pause()
    loss.backward()
    model.monitor.resume()
    x = torch.randn(3, 4)
    step(model, x)
    assert read(model)["InputSndNorm"] == pytest.approx(x.norm().item())
    twin = taiyi_fx.instrument(copy.deepcopy(model._instrumentation.model), {"0": NORMS})
    step(twin, x)
    assert read(model)["OutputGradSndNorm"] == pytest.approx(read(twin)["OutputGradSndNorm"])


def test_strict_raises_with_the_name():
    @taiyi_fx.quantity("fails_strictly", norm=taiyi_fx.output.norm)
    def fails_strictly(norm):
        raise ArithmeticError("no such luck")

    model = taiyi_fx.instrument(mlp(), {"0": [fails_strictly]}, strict=True)
    model(torch.randn(3, 4))
    with pytest.raises(ArithmeticError) as error:
        model.monitor.track(0)
    assert "fails_strictly of '0'" in "\n".join(
        [*map(str, error.value.args), *getattr(error.value, "__notes__", [])]
    )


class Copies(torch.overrides.TorchFunctionMode):
    """Counts what reaches the host."""

    def __init__(self):
        self.count = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.count += getattr(func, "__name__", "") == "cpu"
        assert getattr(func, "__name__", "") not in ("__bool__", "__float__"), func
        return func(*args, **(kwargs or {}))


def test_one_host_copy_at_a_due_step_and_none_at_others(monkeypatch):
    # What lies on the CPU is there already: here it counts as if it were on another device.
    monkeypatch.setattr("taiyi_fx.step.host._is_on_host", lambda x: False)
    # And the mode that counts sees our operations, which modes are not shown otherwise.
    monkeypatch.setattr("taiyi_fx.passes.probes.modes._len_torch_function_stack", lambda: 0)
    model = taiyi_fx.instrument(
        mlp(), {nn.Linear: [[q, "every(2)"] for q in (*NORMS, "WeightNorm", "OutputRMS")]}
    )
    counts = []
    for at in range(4):
        with Copies() as copies:
            step(model, torch.randn(3, 4), at)
        counts.append(copies.count)
    assert counts == [1, 0, 1, 0]


def test_records_are_a_table():
    model = taiyi_fx.instrument(mlp(), {"0": NORMS, "2": ["ForwardInput"]})
    for at in range(3):
        step(model, torch.randn(3, 4), at)
    records = model.monitor.records
    assert len(records) == 9
    assert len(records.select(module="0", quantity="InputSndNorm")) == 3
    assert records[0].step == 0
    assert list(records.to_columns()) == ["step", "module", "quantity", "value", "mode"]
    assert "0 ... 2 (3)" in str(records)
    assert "tensor 3 x 5" in str(records)
    assert repr(records) == "<9 records of 3 series>"
    assert all(math.isfinite(r.value) for r in records.select(module="0"))


@pytest.mark.parametrize("kind", [np.int64, torch.tensor, float])
def test_steps_and_epochs_may_be_whole_numbers_of_any_kind(kind):
    monitor = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["WeightNorm"]}).monitor
    monitor.log("a", 1.0, step=kind(0))
    monitor.track(kind(0))
    (summary, *_) = monitor.tick_epoch(kind(3))
    assert {type(r.step) for r in monitor.records} == {int}
    assert summary.epoch == 3
    assert type(summary.epoch) is int


@pytest.mark.parametrize("wrong", [0.5, "1"])
def test_a_step_that_is_no_whole_number_is_told_where_it_is_given(wrong):
    monitor = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["WeightNorm"]}).monitor
    with pytest.raises(TypeError, match="step is a whole number, not"):
        monitor.track(wrong)
    with pytest.raises(TypeError, match="epoch is a whole number, not"):
        monitor.tick_epoch(wrong)
    monitor.track(0)


def test_a_forgotten_track_is_told_at_the_end():
    model = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["InputMean"]})
    model(torch.ones(1, 2))
    with pytest.warns(taiyi_fx.MonitorWarning, match="track was never called"):
        model.monitor.close()


def test_a_track_that_is_forgotten_in_a_long_training_is_told_while_it_trains():
    model = taiyi_fx.instrument(nn.Linear(2, 2), {"": [["InputMean", "linear(10, 5)"]]})
    for _ in range(99):
        model(torch.ones(1, 2))
    with pytest.warns(MonitorWarning, match="ran 100 forwards in training, but track was never"):
        model(torch.ones(1, 2))
    model(torch.ones(1, 2))
    model.monitor.close()


def test_many_micro_batches_are_no_forgotten_track():
    model = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["InputMean"]})
    step(model, torch.ones(1, 2), 0)
    for _ in range(110):
        model(torch.ones(1, 2))
    model.monitor.track(1)
    model.monitor.close()


def test_a_step_that_is_tracked_twice_is_told_once():
    model = taiyi_fx.instrument(mlp(), {"0": ["InputSndNorm"]})
    step(model, torch.ones(3, 4), 0)
    with pytest.warns(MonitorWarning, match=re.escape("track(0) was called twice")) as caught:
        model.monitor.track(0)
    assert len(caught) == 1
    step(model, torch.ones(3, 4), 1)
    model.monitor.track(1)
    assert list(model.monitor.get_output()["0"]["InputSndNorm"]) == [0, 1]
    assert not model.monitor.missing


def test_steps_that_go_backwards_are_told_once():
    model = taiyi_fx.instrument(mlp(), {"0": ["InputSndNorm"]})
    for at in range(3):
        step(model, torch.ones(3, 4), at)
    text = "track(0) was called after track(2): steps count up over the whole training"
    with pytest.warns(MonitorWarning, match=re.escape(text)) as caught:
        step(model, torch.ones(3, 4), 0)
    assert len(caught) == 1
    step(model, torch.ones(3, 4), 1)
    step(model, torch.ones(3, 4), 0)
    assert len(model.monitor.records) == 6


def test_a_training_that_begins_anew_is_told_nothing():
    model = taiyi_fx.instrument(mlp(), {"0": ["InputSndNorm"]})
    for _ in range(2):
        model.monitor.clean_mem()
        model.monitor.start_at(0)
        for at in range(3):
            step(model, torch.ones(3, 4), at)
    with model.monitor.at(1):
        model(torch.ones(3, 4))
    model.monitor.track(1)


@pytest.fixture
def server():
    """Has a model called in another thread, again and again, while the body runs."""

    @contextmanager
    def serving(model, x):
        ended, begun = threading.Event(), threading.Event()

        def serve():
            # With rests: 100 forwards before the body's first step would be told as a missing track.
            while not ended.wait(0.002):
                model(x)
                begun.set()

        thread = threading.Thread(target=serve)
        thread.start()
        begun.wait()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    return serving


@pytest.mark.parametrize("comes_first", [True, False])
def test_a_thread_that_infers_beside_the_training_takes_none_of_its_values(server, comes_first):
    cfg = {"0": ["InputSndNorm", "OutputGradSndNorm", "WeightNorm"]}
    model = taiyi_fx.instrument(mlp(), cfg)
    x = torch.ones(3, 4)
    if not comes_first:
        step(model, x, 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with server(model, 100 * torch.ones(64, 4)):
            for at in range(1, 60):
                step(model, x, at)
    found = model.monitor.get_output()["0"]
    assert len(found["WeightNorm"]) == 60 - comes_first
    assert found["InputSndNorm"].keys() == found["OutputGradSndNorm"].keys()
    assert len(found["InputSndNorm"]) == 60 - comes_first
    norms = found["InputSndNorm"].values()
    assert min(norms) == max(norms) == pytest.approx(x.norm().item())
    texts = [str(warning.message) for warning in caught]
    assert sum("ran in another thread than the one that calls track" in text for text in texts) == 1
    assert all("several threads at once" in text or "another thread" in text for text in texts)


def test_edits_hold_in_a_thread_beside_the_training(server):
    half = taiyi_fx.edit(value=lambda y: y * 0.5)
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(4, 4)), {"0": [half, "OutputRMS"]})
    x = torch.ones(2, 4)
    expected, found = model(x), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with server(lambda x: found.append(model(x)), x):
            for at in range(20):
                step(model, x, at)
    assert all(torch.equal(y, expected) for y in found)
    assert len(model.monitor.get_output()["0"]["OutputRMS"]) == 20


@some_or_all("few", 60, 600)
def test_an_interrupt_of_track_loses_and_doubles_no_other_step(few, tmp_path):
    def begun(name):
        run = tmp_path / name
        model = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["WeightNorm"]}, run=run)
        for at in range(2):
            step(model, torch.ones(1, 2), at)
        model(torch.ones(1, 2)).sum().backward()
        model.monitor.log("loss", 3.0)
        return model, run

    counted, _ = begun("counted")
    instructions = instructions_of(lambda: counted.monitor.track(2))
    counted.monitor.close()
    for number, place in enumerate(chosen(instructions, few)):
        model, run = begun(str(number))
        interrupted_at(lambda model=model: model.monitor.track(2), place)
        torch.set_grad_enabled(True)  # as the trace may come between a `with` and its body
        step(model, torch.ones(1, 2), 3)
        model.monitor.close()
        with taiyi_fx.open_run(run) as kept:
            table = kept.to_numpy()
        names, steps = table["quantity"], table["step"]
        assert steps[names == "WeightNorm"].tolist() in ([0, 1, 3], [0, 1, 2, 3]), place
        assert steps[names == "loss"].tolist() == [2], place


SPARSE = {"0": [["InputSndNorm", "adaptive(50, 2)"]]}


def due_steps(model):
    return list(model.monitor.get_output()["0"]["InputSndNorm"])


def test_a_raised_cadence_reads_each_of_the_next_steps():
    model = taiyi_fx.instrument(mlp(), SPARSE, start_step=51)
    for at in range(51, 101):
        if at == 60:
            model.monitor.raise_cadence(steps=3)
        step(model, torch.randn(3, 4), at)
    assert due_steps(model) == [51, 61, 62, 63, 80]
    assert model.monitor.missing == {}


def test_a_cadence_raised_between_forward_and_track_counts_from_the_next_step():
    model = taiyi_fx.instrument(mlp(), SPARSE, start_step=52)
    for at in range(52, 56):
        model(torch.randn(3, 4)).square().mean().backward()
        if at == 53:
            model.monitor.raise_cadence(steps=1)
        model.monitor.track(at)
    assert due_steps(model) == [54]
    assert model.monitor.missing == {}


def test_a_raised_cadence_ends_where_another_training_begins():
    model = taiyi_fx.instrument(mlp(), SPARSE, start_step=52)
    model.monitor.raise_cadence()
    step(model, torch.randn(3, 4), 52)
    assert "it is next due at step 53" in model.monitor.explain("0", "InputSndNorm")
    model.monitor.start_at(61)
    step(model, torch.randn(3, 4), 61)
    assert "0" not in model.monitor.get_output()


@pytest.mark.parametrize("steps", [0, -3])
def test_a_cadence_is_raised_for_at_least_one_step(steps):
    model = taiyi_fx.instrument(mlp(), SPARSE)
    with pytest.raises(ValueError, match="steps is a whole number of at least 1"):
        model.monitor.raise_cadence(steps=steps)


def test_what_fails_when_findings_are_looked_for_is_told_once_and_training_goes_on(monkeypatch):
    def after(*args, **kwargs):
        raise MemoryError("no more")

    monkeypatch.setattr(Watch, "after", after)
    model = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["OutputRMS"]})

    def train():
        for step in range(3):
            model(torch.ones(1, 2)).sum().backward()
            model.monitor.track(step)

    with pytest.warns(MonitorWarning, match="looking for findings failed: MemoryError") as told:
        train()
    assert len(told) == 1
    assert list(model.monitor.get_output()[""]["OutputRMS"]) == [0, 1, 2]
    strict = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["OutputRMS"]}, strict=True)
    strict(torch.ones(1, 2)).sum().backward()
    with pytest.raises(MemoryError):
        strict.monitor.track(0)


def test_findings_of_a_model_that_was_never_tracked_say_so():
    model = taiyi_fx.instrument(mlp(), {"0": ["WeightNorm"]})
    assert repr(model.monitor.findings) == (
        "nothing was recorded: call monitor.track(step) after each backward"
    )
    model.monitor.track(0)
    assert repr(model.monitor.findings).startswith("no findings in 1 series of 1 module")


def test_evaluations_alone_are_no_missing_values_where_they_are_recorded():
    model = taiyi_fx.instrument(mlp(), {"0": ["OutputRMS", "OutputGradRMS"]}, record_eval=True)
    model.eval()
    for step_of_evaluation in range(2):
        with torch.no_grad():
            model(torch.randn(3, 4))
        model.monitor.track(step_of_evaluation)  # a warning would be an error
    assert list(model.monitor.get_output("eval")["0"]["OutputRMS"]) == [0, 1]
    with pytest.warns(MonitorWarning, match=r"no records of mode 'train': get_output\(mode='eval'"):
        assert model.monitor.get_output() == {}
    assert "called in evaluation alone" in model.monitor.explain("0", "OutputGradRMS")


def test_what_is_called_in_training_is_missed_there_with_evaluations_beside():
    class Halved(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.b(self.a(x).detach())

    with pytest.warns(MonitorWarning, match="'a': no gradient can reach it"):
        model = taiyi_fx.instrument(Halved(), {"a": ["OutputGradRMS"]}, record_eval=True)
    model(torch.randn(3, 4)).sum().backward()
    model.eval()(torch.randn(3, 4))
    model.train()
    with pytest.warns(MonitorWarning, match="OutputGradRMS of 'a'"):
        model.monitor.track(0)


def test_track_without_a_number_counts_by_itself():
    model = taiyi_fx.instrument(mlp(), {"0": ["InputRMS"]})
    for step in (None, None, 7, None):
        model(torch.randn(3, 4)).sum().backward()
        model.monitor.track(step) if step else model.monitor.track()
    assert [block.step for block in model.monitor.records.blocks()] == [0, 1, 7, 8]
