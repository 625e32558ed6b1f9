"""Costly quantities are computed beside the training: in order, told when they fail, in bounds."""

import multiprocessing
import os
import sys
import threading
import warnings

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import output, quantity
from taiyi_fx.reductions import Spectrum
from taiyi_fx.step import background


class Gate:
    """Holds up whatever passes, until opened."""

    def __init__(self):
        self.event = threading.Event()
        self.waiting = threading.Event()

    def pass_through(self, value):
        self.waiting.set()
        assert self.event.wait(30)
        return value


@pytest.fixture
def gate():
    made = Gate()
    yield made
    made.event.set()


def slow(gate, name="slow"):
    @quantity(name, spectrum=output.spectrum)
    def found(spectrum):
        return gate.pass_through(spectrum.eigenvalues[0])

    return found


def step(model, number, x=None):
    model(torch.randn(8, 3) if x is None else x).square().sum().backward()
    model.monitor.track(number)


def test_a_step_does_not_wait_for_eigenvalues_and_they_belong_to_it(gate):
    model = taiyi_fx.instrument(
        nn.Sequential(nn.Linear(3, 3)), {"0": [[slow(gate), "every(2)"], "OutputRMS"]}
    )
    xs = [torch.randn(8, 3) * (1 + i) for i in range(4)]
    truth = []
    for i, x in enumerate(xs):
        step(model, i, x)
        truth.append(
            torch.linalg.eigvalsh(torch.cov(nn.functional.linear(x, model[0].weight).T))[-1].item()
        )
    assert gate.waiting.wait(30)
    assert len(model.monitor._queue.records) == 0  # those of step 0 are not complete
    gate.event.set()
    found = model.monitor.get_output()["0"]["slow"]
    assert found == pytest.approx({0: truth[0], 2: truth[2]}, rel=1e-4)
    keys = [(r.step, r.quantity) for r in model.monitor.records]
    assert keys == [(0, "slow"), (0, "OutputRMS"), (1, "OutputRMS"), (2, "slow"), (2, "OutputRMS"), (3, "OutputRMS")]  # fmt: skip


def test_what_was_read_is_that_steps_also_when_parameters_have_changed_since(gate):
    model = taiyi_fx.instrument(
        nn.Sequential(nn.Linear(3, 3)), {"0": ["ParameterCondition", slow(gate)]}
    )
    before = torch.linalg.cond(model[0].weight.detach().double()).item()
    step(model, 0)
    with torch.no_grad():
        model[0].weight.fill_(1.0)
    gate.event.set()
    found = model.monitor.get_output()["0"]["ParameterCondition.weight"][0]
    assert found == pytest.approx(before, rel=1e-4)


def test_what_spans_steps_is_forgotten_behind_the_work_that_is_under_way(gate):
    @quantity("kept", now=output.spectrum, before=taiyi_fx.previous(output.spectrum))
    def kept(now, before):
        return gate.pass_through(torch.tensor(float(before is None)))

    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 3)), {"0": [kept]})
    step(model, 0)
    step(model, 1)
    model.monitor.start_at(7)
    step(model, 7)
    gate.event.set()
    assert model.monitor.get_output()["0"]["kept"] == {0: 1.0, 1: 0.0, 7: 1.0}


def test_a_costly_quantity_that_fails_is_told_by_name_and_training_goes_on():
    @quantity("broken", spectrum=output.spectrum)
    def broken(spectrum):
        raise RuntimeError("no luck")

    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 3)), {"0": [broken]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step(model, 0)
        _ = model.monitor.records
    assert model.monitor.missing == {("0", "broken"): "RuntimeError: no luck"}
    assert "RuntimeError: no luck" in model.monitor.explain("0", "broken")
    strict = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 3)), {"0": [broken]}, strict=True)
    with pytest.raises(RuntimeError, match="no luck"):
        step(strict, 0)


def test_work_that_waits_is_bounded(gate, monkeypatch):
    monkeypatch.setattr(background, "_BYTES", 1)
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 3)), {"0": [slow(gate)]})
    step(model, 0)
    assert gate.waiting.wait(30)
    threading.Timer(0.2, gate.event.set).start()
    step(model, 1)  # waits for the first: there is no room for a second
    assert gate.event.is_set()
    assert list(model.monitor.get_output()["0"]["slow"]) == [0, 1]


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_a_thread_of_its_own():
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 3)), {"0": ["OutputGradCovMaxEig"]})
    step(model, 0)
    _ = model.monitor.records

    def child():
        torch.set_num_threads(1)
        other = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 3)), {"0": ["InputCovMaxEig"]})
        with torch.enable_grad():
            other(torch.randn(8, 3))  # backward needs autograd's threads, which a fork has not
        other.monitor.track(0)
        os._exit(0 if len(other.monitor.records) == 1 else 1)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(60)
    assert process.exitcode == 0


def test_a_window_and_a_previous_value_of_a_costly_reading_follow_the_steps():
    @quantity("change", now=output.spectrum, before=taiyi_fx.previous(output.spectrum))
    def change(now, before):
        return now.trace / before.trace if before else torch.zeros(())

    @quantity("mean_trace", window=True, each=output.spectrum)
    def mean_trace(each):
        return torch.stack([e.trace for e in each]).mean()

    layer = nn.Identity()
    model = taiyi_fx.instrument(nn.Sequential(layer), {"0": [change, [mean_trace, "linear(2, 1)"]]})
    xs = [torch.randn(8, 3) for _ in range(4)]
    for i, x in enumerate(xs):
        model(x)
        model.monitor.track(i)
    traces = [x.var(dim=0).sum().item() for x in xs]
    found = model.monitor.get_output()["0"]
    assert found["change"] == pytest.approx({i: traces[i] / traces[i - 1] if i else 0 for i in range(4)}, rel=1e-5)  # fmt: skip
    assert found["mean_trace"] == pytest.approx({1: sum(traces[:2]) / 2, 3: sum(traces[2:]) / 2}, rel=1e-5)  # fmt: skip


@pytest.mark.parametrize("kind", ["noise", "decay", "low rank", "diagonal"])
def test_the_largest_eigenvalue_of_a_wide_matrix_is_found_without_the_others(kind):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(700, 600, generator=generator)
    if kind == "decay":
        x = x * torch.logspace(0, -3, 600)
    if kind == "low rank":
        x = x[:, :3] @ x[:3]
    if kind == "diagonal":
        x = torch.diag(torch.linspace(1, 2, 600))
    state = Spectrum().measure(x)
    value = Spectrum().finish(state)
    truth = torch.linalg.eigvalsh(torch.cov(x.T.double()))[-1].item()
    assert value.largest.item() == pytest.approx(truth, rel=1e-5)
    assert "eigenvalues" not in vars(value)
    ratio = (value.trace / value.largest).item()
    assert ratio == pytest.approx(torch.cov(x.T.double()).trace().item() / truth, rel=2e-5)


def test_a_matrix_on_which_lapack_gives_up_has_its_eigenvalues_all_the_same(monkeypatch):
    def gives_up(matrix):
        raise torch.linalg.LinAlgError("failed to converge")

    x = torch.randn(30, 4)
    monkeypatch.setattr(torch.linalg, "eigvalsh", gives_up)
    found = Spectrum().finish(Spectrum().measure(x)).eigenvalues
    monkeypatch.undo()
    truth = torch.linalg.eigvalsh(torch.cov(x.T.double())).flip(0)
    assert torch.allclose(found, truth, rtol=1e-4)
