"""Replays of a training: which steps are run again, and how often."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings import Finding
from taiyi_fx.instrumented import instrumentation_of
from taiyi_fx.recorder.replays import KeepingOptions, Replays, Training


class Spoilt(nn.Module):
    """Gives NaN where it is told to."""

    def __init__(self):
        super().__init__()
        self.fc, self.is_spoilt = nn.Linear(2, 2), False

    def forward(self, x):
        y = self.fc(x)
        return torch.log(y - 100) if self.is_spoilt else y


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
        model.zero_grad()
        return replays.after(findings)

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


def test_an_alert_of_something_else_is_no_replay_where_nothing_went_wrong(made):
    assert made(findings=[alert(0)]) == []
    assert made.replays.found == []


def test_a_step_that_is_not_kept_any_more_is_warned_of(made):
    for _ in range(4):
        made()
    with pytest.warns(taiyi_fx.MonitorWarning, match="step 0 was not run again"):
        made(findings=[alert(0)])
