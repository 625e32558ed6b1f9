"""A training whose monitor acts on what it finds."""

import copy
import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx import MonitorWarning, every
from taiyi_fx.watch.pace import Pace

NORMS = ["WeightNorm", "OutputRMS", "OutputGradRMS", "WeightGradNorm"]


def network():
    torch.manual_seed(0)
    layers = [part for _ in range(6) for part in (nn.Linear(8, 8), nn.Softsign())]
    return nn.Sequential(*layers, nn.Linear(8, 2))


def train(model, steps=60, *, nan_at=None, may_skip=False):
    """The steps that were made."""
    monitor, optimizer = model.monitor, torch.optim.SGD(model.parameters(), 0.05)
    generator, made = torch.Generator().manual_seed(1), []
    for step in range(steps):
        x = torch.randn(16, 8, generator=generator)
        if step == nan_at:
            x[0, 0] = math.nan
        loss = F.mse_loss(model(x), x[:, :2])
        loss.backward()
        monitor.log("loss", loss)
        monitor.track(step)
        if not (may_skip and monitor.should_skip):
            optimizer.step()
            made.append(step)
        optimizer.zero_grad()
        if monitor.should_stop:
            break
    return made


def watched(**options):
    return taiyi_fx.instrument(network(), {"Linear": NORMS}, **options)


def test_a_healthy_training_goes_on_as_without():
    told, plain = [], watched()
    model = watched(on_finding=[told.append, "stop", "skip"], finding_severity="note")
    assert train(model, may_skip=True) == list(range(60))
    train(plain)
    assert told == []
    for mine, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_stop_is_at_the_step_of_a_nan_and_warned_of():
    model = watched(on_finding="stop")
    with pytest.warns(MonitorWarning, match="alert non_finite: step 20: the first NaN or Inf"):
        assert train(model, nan_at=20)[-1] == 20
    assert model.monitor.should_stop


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_skip_leaves_out_the_step_alone_and_the_parameters_stay_finite():
    model = watched(on_finding="skip")
    assert train(model, nan_at=20, may_skip=True) == [s for s in range(60) if s != 20]
    assert all(p.isfinite().all() for p in model.parameters())


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_without_skip_nothing_is_to_be_skipped():
    model = watched(on_finding="stop")
    train(model, nan_at=20)
    assert not model.monitor.should_skip


def test_a_finding_raises_the_cadence_of_adaptive_schedules_at_once():
    cfg = {"0": [["WeightNorm", taiyi_fx.adaptive(1000, 1)]]}
    model = taiyi_fx.instrument(network(), cfg)
    with pytest.warns(MonitorWarning):
        train(model, 600, nan_at=530)
    steps = list(model.monitor.get_output()["0"]["WeightNorm"])
    assert set(range(531, 551)) <= set(steps)
    assert 525 not in steps


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_findings_told_in_training_are_events_of_the_run(tmp_path):
    model = watched(run=tmp_path / "run")
    train(model, nan_at=20)
    model.monitor.close()
    with taiyi_fx.open_run(tmp_path / "run") as run:
        assert [(e.step, e.kind) for e in run.events] == [(20, "finding")]
        told, _, advice = run.events[0].text.partition(". ")
        # What follows from it is known later.
        assert str(run.findings[0]).startswith(f"{told}; the weights of 7 modules are so from")
        assert run.findings[0].advice == advice


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_on_finding_may_be_set_later_and_a_new_training_begins_without_a_stop():
    model = watched()
    model.monitor.on_finding = "stop"
    assert model.monitor.on_finding == "stop"
    train(model, nan_at=5)
    assert model.monitor.should_stop
    model.monitor.start_at(0)
    assert not model.monitor.should_stop
    with pytest.raises(ValueError, match="no action"):
        model.monitor.on_finding = "halt"
    model.monitor.finding_severity = "warning"
    assert model.monitor.finding_severity == "warning"
    with pytest.raises(ValueError, match="no severity"):
        model.monitor.finding_severity = "bad"


def test_what_is_wrong_is_refused_by_instrument():
    with pytest.raises(ValueError, match="'stpo' is no action"):
        watched(on_finding="stpo")
    with pytest.raises(ValueError, match="'bad' is no severity"):
        watched(finding_severity="bad")


def test_copies_act_on_nothing():
    assert copy.deepcopy(watched(on_finding=lambda found: None)).monitor.on_finding is None


def test_numbers_that_come_late_are_looked_at_when_they_are_there():
    told = []
    cfg = {"Linear": [["InputCovCondition", every(5)], "NonFinite"]}
    model = taiyi_fx.instrument(network(), cfg, on_finding=told.append)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train(model, 30, nan_at=12)
    assert [(one.kind, one.module) for one in told][:1] == [("non_finite", "0")]


def test_an_error_of_a_function_ends_a_strict_training_alone():
    def broken(found):
        raise LookupError("mine")

    with pytest.warns(MonitorWarning) as caught:
        assert train(watched(on_finding=broken), nan_at=20)[-1] == 59
    assert "broken failed: LookupError: mine" in str(caught[-1].message)
    strict = watched(on_finding=broken, strict=True)
    with pytest.warns(MonitorWarning), pytest.raises(LookupError, match="mine"):
        train(strict, nan_at=20)


class Convolutions(nn.Module):
    def __init__(self, momentum):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, momentum=momentum)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).relu().mean((2, 3)))


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@pytest.mark.parametrize(("momentum", "kinds"), [(1e-4, ["stale_statistics"]), (0.1, [])])
def test_a_fault_that_shows_late_in_what_a_preset_reads_rarely_is_told_soon(momentum, kinds):
    torch.manual_seed(0)
    told = []
    model = taiyi_fx.instrument(Convolutions(momentum), finding_severity="warning")
    model.monitor.on_finding = lambda one: told.append((model.monitor.next_step, one.kind))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(130):
        x = 3 * torch.randn(16, 1, 8, 8)
        loss = F.cross_entropy(model(x), (x.mean((1, 2, 3)) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
    model.monitor.close()
    assert [kind for _, kind in told] == kinds
    assert all(step <= 120 for step, _ in told)


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_the_end_tells_what_was_seen_too_late_and_keeps_it_in_the_run(tmp_path, monkeypatch):
    told = []
    model = watched(run=tmp_path, on_finding=told.append, finding_severity="note")
    monkeypatch.setattr(Pace, "is_due", False)
    with torch.no_grad():
        model[6].weight.mul_(1000)
    train(model, 40)
    assert told == []
    model.monitor.close()
    assert told
    with taiyi_fx.open_run(tmp_path) as run:
        assert [e.text for e in run.events] == [str(one) for one in told]
        assert {e.step for e in run.events} == {39}
    count = len(told)
    model.monitor.close()
    assert len(told) == count
