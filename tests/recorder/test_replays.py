"""Replays of a training: which steps are run again, and how often."""

import re

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings import Finding
from taiyi_fx.instrumented import instrumentation_of
from taiyi_fx.recorder.replays import KeepingOptions, Replays, Training
from tests.recorder.replay.given import line_of


class Spoilt(nn.Module):
    """Gives NaN where it is told to."""

    def __init__(self):
        super().__init__()
        self.fc, self.is_spoilt = nn.Linear(2, 2), False

    def forward(self, x):
        y = self.fc(x)
        return torch.log(y - 100) if self.is_spoilt else y


def spike(step):
    return Finding("loss_spike", "warning", "", "loss", step, 1.0, "", "text", "advice")


def alert(step):
    return Finding("large_steps", "alert", "fc", "UpdateRatio", step, 1.0, "", "text", "advice")


@pytest.fixture
def made():
    model, counter = Spoilt(), iter(range(100))
    instrumented = taiyi_fx.instrument(model, {"": ["NonFinite"]})
    session = instrumentation_of(instrumented).compiled.session
    training = Training(session, lambda: (), lambda: 0, is_strict=True)
    replays = Replays(training, KeepingOptions(1))

    def step(is_spoilt=False, findings=()):
        model.is_spoilt = is_spoilt
        instrumented(torch.ones(1, 2)).sum().backward()
        replays.track(next(counter))
        made = replays.after(findings)
        model.zero_grad()
        return made

    step.replays = replays
    return step


pytestmark = pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")


def test_a_nan_is_seen_without_a_finding_and_once(made):
    assert made() == []
    (found,) = made(is_spoilt=True)
    assert (found.step, found.operation) == (1, "log")
    assert made(is_spoilt=True) == []
    assert made() == []
    assert [one.step for one in made.replays.found] == [1]


def test_another_nan_later_is_run_again_up_to_a_number_of_times(made):
    steps = []
    for i in range(20):
        steps += [one.step for one in made(is_spoilt=i % 4 == 3)]
    assert steps == [3, 7, 11]


def test_an_alert_of_what_follows_a_nan_runs_no_step_again(made):
    made()
    (found,) = made(is_spoilt=True)
    assert made(is_spoilt=True, findings=[alert(2)]) == []
    assert made.replays.found == [found]
    with pytest.warns(taiyi_fx.MonitorWarning, match="step 0 was not run again"):
        made(is_spoilt=True, findings=[alert(0)])


def test_an_alert_of_something_else_is_no_replay_where_nothing_went_wrong(made):
    assert made(findings=[alert(0)]) == []
    assert made.replays.found == []


def test_a_step_that_stood_out_is_run_again_and_named_whatever_it_brings(made):
    (found,) = made(findings=[spike(0)])
    assert (found.step, found.operation, found.is_exact) == (0, "", True)
    assert "no number is far from" in found.note


def test_on_several_ranks_one_that_stood_out_is_not(made, monkeypatch):
    monkeypatch.setattr("taiyi_fx.recorder.replays.are_several_ranks", lambda: True)
    assert made(findings=[spike(0)]) == []


def test_one_step_is_left_to_alerts_whatever_stood_out_before(made):
    steps = []
    for i in range(6):
        steps += [one.step for one in made(findings=[spike(i)])]
    assert steps == [0, 1]
    assert [one.step for one in made(is_spoilt=True)] == [6]
    made()
    assert made(is_spoilt=True) == []


def test_a_step_that_is_not_kept_any_more_is_warned_of(made):
    for _ in range(4):
        made()
    with pytest.warns(taiyi_fx.MonitorWarning, match="step 0 was not run again") as caught:
        made(findings=[alert(0)])
    assert "checkpoint_reach=" in str(caught[0].message)


class Grown(nn.Module):
    """Multiplies by a thousand in one step."""

    def __init__(self):
        super().__init__()
        self.fc, self.by, self.norm = nn.Linear(4, 4), 1.0, nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.fc(x) * self.by)


@pytest.mark.parametrize("every", [1, 5])
def test_an_alert_of_sizes_that_comes_late_finds_its_step_still_kept(every):
    model, at, late = Grown(), 23, 39
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    instrumented = taiyi_fx.instrument(model, {"": ["NonFinite"]}, optimizer=optimizer)
    session = instrumentation_of(instrumented).compiled.session
    training = Training(session, lambda: (optimizer,), lambda: 0, is_strict=True)
    replays = Replays(training, KeepingOptions(every))
    for step in range(late + 1):
        model.by = 1000.0 if step == at else 1.0
        optimizer.zero_grad()
        instrumented(torch.randn(8, 4)).square().mean().backward()
        replays.track(step)
        found = replays.after([alert(at)] if step == late else [])
        optimizer.step()
    assert [(one.step, one.operation, one.line) for one in found] == [(at, "mul", line_of_mul())]
    assert re.match(r"its output is 1\S*e\+03 times as large as when it last ran", found[0].note)
    assert found[0].is_exact


def line_of_mul():
    return line_of(Grown, "* self.by")
