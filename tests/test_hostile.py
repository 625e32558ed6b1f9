"""Inputs that broke it once: nothing in `track` ends a run, and no number is invented."""

import copy
import math
import os
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.records.epochs import Epochs
from taiyi_fx.records.record import Record


def tracked(model, step=0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        model.monitor.track(step)
        return {m: {q: v[step] for q, v in of.items()} for m, of in model.monitor.get_output().items()}  # fmt: skip


def one(layer, quantities, x, loss=lambda y: y.square().sum()):
    model = taiyi_fx.instrument(nn.Sequential(layer), {"0": quantities})
    loss(model(x)).backward()
    return tracked(model)["0"]


def test_sparse_gradients_are_those_of_the_whole_weight():
    layer = nn.Embedding(10, 4, sparse=True)
    names = ["WeightGradNorm", "ParameterGradRMS", "ParameterGradDeathRate", "WeightGradKurtosis"]
    found = one(layer, names, torch.tensor([1, 1, 2]), lambda y: y.sum())
    gradient = torch.zeros(10, 4, dtype=torch.float64)
    gradient[1], gradient[2] = 2, 1
    assert found["WeightGradNorm"] == pytest.approx(gradient.norm().item())
    assert found["ParameterGradRMS.weight"] == pytest.approx(gradient.square().mean().sqrt().item())
    assert found["ParameterGradDeathRate.weight"] == 0.8


def test_parameters_that_cannot_be_read_are_told_and_others_are_read():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch initialises no element
        layers = nn.Linear(3, 3), nn.Linear(3, 0), nn.Linear(0, 2), nn.Linear(2, 2)
    model = taiyi_fx.instrument(
        nn.Sequential(*layers), {nn.Linear: ["ParameterNorm", "ParameterCondition"]}
    )
    model[0].bias = None
    model[3].to("meta")
    found = tracked(model)
    assert "ParameterNorm.weight" in found["0"]
    assert model.monitor.missing["0", "ParameterNorm.bias"] == "bias is None"
    assert "ParameterCondition.weight" in found["0"]
    assert ("3", "ParameterCondition.weight") in model.monitor.missing


def test_a_scale_of_zero_ends_nothing():
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2)), {"0": ["OutputGradNorm"]})
    model(torch.randn(2, 2)).sum().backward()
    model.monitor.track(0, grad_scale=0.0)
    assert not math.isfinite(model.monitor.get_output()["0"]["OutputGradNorm"][0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_while_work_is_pending_waits_for_nothing():
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(400, 2)), {"0": ["InputCovCondition"]})
    for step in range(4):
        model(torch.randn(450, 400)).sum().backward()
        model.monitor.track(step)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _ = model.monitor.records
        lost = "forked" in model.monitor.missing.get(("0", "InputCovCondition"), "forked")
        os._exit(0 if lost else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(model.monitor.records) == 4


def test_training_in_a_thread_goes_on_while_the_interpreter_ends():
    program = """
        import threading, time, torch, taiyi_fx
        from torch import nn

        def train():
            model = taiyi_fx.instrument(nn.Linear(4, 2), {"Linear": ["InputCovMaxEig"]})
            for step in range(3):
                model(torch.randn(8, 4)).sum().backward()
                model.monitor.track(step)
                time.sleep(0.2)
            print(len(model.monitor.records))

        threading.Thread(target=train).start()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "3", done.stderr


@pytest.mark.parametrize("size", [1e-13, 1e9, 1e14])
def test_the_largest_eigenvalue_knows_no_scale(size):
    x = torch.randn(700, 600) * size
    found = one(nn.Linear(600, 1), ["InputCovMaxEig", "InputCovStableRank"], x, lambda y: y.sum())
    truth = torch.linalg.eigvalsh(torch.cov(x.T.double())).flip(0)
    assert found["InputCovMaxEig"] == pytest.approx(truth[0].item(), rel=1e-4)
    assert found["InputCovStableRank"] == pytest.approx((truth.sum() / truth[0]).item(), rel=1e-4)


def test_an_outlier_in_front_costs_the_others_nothing():
    x = torch.full((1000, 10), 3e-4)
    x[0, 0] = 1e4
    found = one(nn.Linear(10, 2), ["InputMean", "InputStd"], x)
    assert found["InputMean"] == pytest.approx(x.double().mean().item(), rel=1e-5)
    assert found["InputStd"] == pytest.approx(x.double().std().item(), rel=1e-5)


def test_finite_numbers_near_the_end_of_their_range_have_a_finite_mean():
    x = torch.rand(1000, 4) * 1e38
    names = ["InputMean", "InputStd", "InputKurtosis", "InputCovMaxEig"]
    found = one(nn.Linear(4, 2), names, x, lambda y: (y * 0).sum())
    assert found["InputMean"] == pytest.approx(x.double().mean().item(), rel=1e-5)
    assert found["InputStd"] == pytest.approx(x.double().std().item(), rel=1e-5)
    truth = torch.linalg.eigvalsh(torch.cov(x.T.double()))[-1].item()
    assert found["InputCovMaxEig"] == pytest.approx(truth, rel=1e-4)


def norm_of_whole(layer, x):
    layer.zero_grad()
    layer(x).square().sum().backward()
    return layer.weight.grad.norm().item()


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.LayerNorm((4, 5)), (4, 5)), (nn.LayerNorm(5), (5,)), (nn.InstanceNorm2d(3, affine=True), (3, 4, 5))],
    ids=str,
)  # fmt: skip
def test_an_input_without_a_batch_is_one_sample(layer, shape):
    x = torch.randn(shape)
    truth = norm_of_whole(layer, x)
    layer.zero_grad()
    found = one(layer, ["PerSampleGradNorm"], x)["PerSampleGradNorm"]
    assert found.tolist() == pytest.approx([truth], rel=1e-5)


def test_layers_that_share_a_weight_have_no_noise_scale_together():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(self.fc(x))

    model = taiyi_fx.instrument(Twice(), {"fc": ["GradientNoiseScale"]})
    model(torch.randn(4, 3)).sum().backward()
    assert "" not in tracked(model)
    assert "a weight is used several times" in model.monitor.missing["", "GradientNoiseScale"]


@pytest.mark.parametrize(("x_size", "g_size"), [(1e10, 1e10), (1e-8, 1e-14), (1e-18, 1e18)])
def test_gradients_by_sample_know_no_scale(x_size, g_size):
    x, g = torch.randn(4, 3, 16) * x_size, torch.randn(4, 3, 16) * g_size
    found = one(nn.Linear(16, 16), ["PerSampleGradNorm"], x, lambda y: (y * g).sum())
    truth = [
        4 * (g_i.double().T @ x_i.double()).norm().item() for x_i, g_i in zip(x, g, strict=True)
    ]
    assert found["PerSampleGradNorm"].tolist() == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize("how", [{}, {"stride": 2, "dilation": 3, "output_padding": 2}])
def test_a_transposed_convolution_may_pad_its_output_beyond_the_last_patch(how):
    layer = nn.ConvTranspose1d(2, 4, 3, **(how or {"dilation": 2, "output_padding": 1}))
    x = torch.randn(1, 2, 5)
    truth = norm_of_whole(layer, x)
    layer.zero_grad()
    found = one(layer, ["PerSampleGradNorm"], x)["PerSampleGradNorm"]
    assert found.tolist() == pytest.approx([truth], rel=1e-5)


def test_an_empty_micro_batch_adds_no_sample():
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(6, 3)), {"0": ["PerSampleGradNorm", "GradientNoiseScale"]})  # fmt: skip
    x = torch.randn(7, 6)
    for part in x.split([0, 7]):
        model(part).square().sum().backward()
    found = tracked(model)["0"]
    assert len(found["PerSampleGradNorm"]) == 7
    assert math.isfinite(found["GradientNoiseScale.trace"])


def test_one_sample_has_no_spread():
    found = one(nn.Linear(4, 2), ["GradientNoiseScale"], torch.randn(1, 4))
    assert all(math.isnan(value) for value in found.values())


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")  # no optimizer, no loss
@pytest.mark.parametrize("layer", [nn.Linear(6, 6), nn.LayerNorm(6), nn.ReLU()], ids=repr)
def test_nothing_has_a_size_and_a_count_and_no_mean(layer):
    """As of an expert that no token came to: what is NaN is told of, though no NaN is there."""
    ours = [q for q in taiyi_fx.quantities() if q.declared_in.startswith("taiyi_fx.")]
    every = [q.name for q in ours if q.unit in ("", "elements", "share")]
    of_layer = [name for name in every if is_of(layer, name)]
    model = taiyi_fx.instrument(nn.Sequential(copy.deepcopy(layer)), {"0": of_layer})
    for step, rows in enumerate((8, 0, 8)):
        model(torch.randn(rows, 6, requires_grad=True)).square().sum().backward()
        model.monitor.track(step)
    found = model.monitor.get_output()["0"]
    means = {"InputRMS", "OutputRMS", "OutputGradRMS", "InputMean", "OutputNorm", "DeadNeuronRatio"}
    assert means <= set(found)
    assert not any(math.isnan(torch.as_tensor(v).sum()) for of in found.values() for v in of.values())  # fmt: skip
    assert {name for name in means if list(found[name]) == [0, 2]} == means
    assert found["OutputGradSndNorm"][1] == found["OutputAbsMax"][1] == found["NonFinite"][1] == 0


def test_an_attention_of_nothing_has_no_heads_sizes():
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    model = taiyi_fx.instrument(attention, {"": ["HeadNorm"]})
    for step, samples in enumerate((3, 0)):
        x = torch.randn(samples, 5, 8)
        model(x, x, x, need_weights=False)[0].sum().backward()
        model.monitor.track(step)
    of_heads = {r.quantity: r.step for r in model.monitor.records if "HeadNorm" in r.quantity}
    assert set(of_heads.values()) == {0}
    assert len(of_heads) == 4


def is_of(layer, name):
    try:
        taiyi_fx.instrument(nn.Sequential(copy.deepcopy(layer)), {"0": [name]})
    except taiyi_fx.ConfigError:
        return False
    return True


def test_a_complex_tensor_takes_no_other_with_it():
    layer = nn.Linear(3, 3, dtype=torch.complex64)
    x = torch.randn(2, 3, dtype=torch.complex64)
    found = one(layer, ["InputSndNorm", "ForwardInput", "WeightNorm"], x, lambda y: y.abs().sum())
    assert torch.equal(found["ForwardInput"], x)
    assert found["WeightNorm"] == pytest.approx(layer.weight.abs().norm().item(), rel=1e-5)


def test_a_complex_parameter_that_turns_has_moved():
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2, dtype=torch.complex64)), {"0": ["UpdateRatio"]})  # fmt: skip
    model.monitor.track(0)
    with torch.no_grad():
        model[0].weight.mul_(1j)
    model.monitor.track(1)
    found = model.monitor.get_output()["0"]["UpdateRatio.weight"]
    assert found == {1: pytest.approx(2**0.5)}


def test_a_conjugates_imaginary_part_has_a_histogram():
    x = torch.randn(4, 3, dtype=torch.complex64).conj().imag
    found = one(nn.Linear(3, 2), ["InputHistogram"], x)["InputHistogram"]
    assert found.sum() == 12


@pytest.mark.parametrize("statistics", ["exact", "streaming"])
def test_an_epoch_with_infinite_values_has_infinite_statistics(statistics):
    epochs = Epochs(statistics)
    for step, value in enumerate([1.0, math.inf, math.inf, math.inf, 2.0]):
        epochs.add(Record(step, "fc", "InputCovCondition", value))
    (found,) = epochs.close(None)
    assert (found.mean, found.max, found.min) == (math.inf, math.inf, 1.0)
    if statistics == "exact":
        assert (found.lower_quartile, found.median) == (2.0, math.inf)


def test_a_window_whose_schedule_has_ended_collects_nothing_more():
    bn = nn.BatchNorm1d(4)
    model = taiyi_fx.instrument(nn.Sequential(bn), {"0": [["MeanTID", "at_steps(1, 3)"]]})
    for step in range(8):
        model(torch.randn(8, 4)).sum().backward()
        model.monitor.track(step)
    assert list(model.monitor.get_output()["0"]["MeanTID"]) == [1, 3]
    assert not model.monitor._tracker._collector._prompt._windows
    assert not [m for m in model.modules() if "forward" in vars(m)]


def test_a_root_that_is_a_layer_has_one_noise_scale():
    model = taiyi_fx.instrument(nn.Linear(4, 2), {"": ["GradientNoiseScale"]})
    model(torch.randn(6, 4)).square().mean().backward()
    tracked(model)
    assert len(model.monitor.records) == 3
    with pytest.raises(ValueError, match="log under another name"):
        model.monitor.log("GradientNoiseScale", 1.0)


def test_an_interrupt_while_records_are_awaited_loses_none(monkeypatch):
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 3)), {"0": ["InputCovMaxEig"]})
    model(torch.randn(8, 3)).sum().backward()
    model.monitor.track(0)
    (job,) = [step.costly for step in model.monitor._queue._waiting[0]] or [None]
    if job is None:  # it was quick
        return

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "outcome", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _ = model.monitor.records
    monkeypatch.undo()
    assert len(model.monitor.records) == 1
    assert np.isfinite(model.monitor.records[0].value)


class Rude:
    """A forward that answers any question by an error of its own."""

    def __init__(self, forward):
        self.forward = forward

    def __call__(self, x):
        return self.forward(x)

    def __getattr__(self, name):
        raise KeyError(name)


def test_a_forward_that_answers_questions_by_errors_runs_as_ever():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    model[0].forward = Rude(model[0].forward)
    x = torch.randn(2, 4)
    expected = model(x)
    watched = taiyi_fx.instrument(model, {"Linear": ["OutputRMS"]})
    for step in range(3):
        assert torch.equal(watched(x), expected)
        watched.monitor.track(step)
    assert len(watched.monitor.records) == 3
    assert type(vars(model[0])["forward"]) is Rude
