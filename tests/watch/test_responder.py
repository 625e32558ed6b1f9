"""What is found in a tracked step is responded to: read densely, end, tell writers."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx import MonitorWarning
from taiyi_fx.records.record import Event
from taiyi_fx.step.statistics import Scale
from taiyi_fx.watch import Reaction, Watch
from taiyi_fx.watch import responder as module

CFG = {"": [["OutputRMS", "adaptive(50, 1)"]]}


def reacting(monkeypatch, reaction, **options):
    """A model after one tracked step whose watch had a reaction, or raised."""

    def after(*args, **kwargs):
        if isinstance(reaction, Exception):
            raise reaction
        return reaction

    monkeypatch.setattr(Watch, "after", after)
    model = taiyi_fx.instrument(nn.Linear(2, 2), CFG, **options)
    model(torch.ones(1, 2)).sum().backward()
    model.monitor.track(0)
    return model.monitor


def test_nothing_found_changes_nothing(monkeypatch):
    monitor = reacting(monkeypatch, Reaction())
    assert not monitor.should_stop
    assert len(monitor._tracker.steps.raised) == 0


def test_a_denser_reading_and_an_end_reach_the_tracker(monkeypatch):
    monitor = reacting(monkeypatch, Reaction(raises_cadence=True, stops=True))
    assert monitor._tracker.steps.raised == range(1, 21)
    assert monitor.should_stop


def test_events_reach_the_writers_at_once(monkeypatch, tmp_path):
    event = Event(0, "finding", "fc", "it is odd")
    monitor = reacting(monkeypatch, Reaction((event,)), run=tmp_path)
    assert not monitor._queue._events
    monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert [e.text for e in run.events if e.kind == "finding"] == ["it is odd"]


def test_whatever_fails_is_told_and_strict_raises(monkeypatch):
    with pytest.warns(MonitorWarning, match="looking for findings failed: MemoryError: no more"):
        reacting(monkeypatch, MemoryError("no more"))
    with pytest.raises(MemoryError):
        reacting(monkeypatch, MemoryError("no more"), strict=True)


@pytest.mark.parametrize("is_alone", [True, False])
def test_steps_that_cannot_be_left_out_are_warned_of_once(monkeypatch, is_alone):
    monkeypatch.setattr(module.Tracker, "is_alone", is_alone)
    model = taiyi_fx.instrument(nn.Linear(2, 2), CFG, on_finding="skip")
    assert model.monitor.can_skip == is_alone
    if is_alone:
        model.monitor._responder.warn_if_none_skips()  # a warning would be an error
        return
    with pytest.warns(MonitorWarning, match="leaves out no step where several ranks") as caught:
        [model.monitor._responder.warn_if_none_skips() for _ in range(2)]
    assert len(caught) == 1


def test_the_scale_says_if_gradients_may_overflow(monkeypatch):
    seen = []

    def after(*args, may_overflow, **kwargs):
        seen.append(may_overflow)
        return Reaction()

    monkeypatch.setattr(Watch, "after", after)
    model = taiyi_fx.instrument(nn.Linear(2, 2), CFG)
    model.monitor._responder.after(0, Scale())
    model.monitor._responder.after(1, Scale.of(torch.amp.GradScaler("cpu")))
    assert seen == [False, True]


def test_a_last_look_that_fails_is_told_and_the_monitor_closes(monkeypatch, tmp_path):
    monitor = reacting(monkeypatch, Reaction(), run=tmp_path)

    def at_end(*args, **kwargs):
        raise MemoryError("no more")

    monkeypatch.setattr(Watch, "at_end", at_end)
    with pytest.warns(MonitorWarning, match="looking for findings failed: MemoryError"):
        monitor.close()
    assert not monitor.is_writing


@pytest.mark.parametrize(("shows", "goes_on"), [(True, False), (True, True), (False, False)])
def test_what_was_shown_behind_the_last_step_is_not_warned_of_at_the_end(shows, goes_on, recwarn):
    torch.manual_seed(0)
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(4, 3), nn.Softmax(1)))

    def train(step):
        loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(3, (8,)))
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)

    for step in range(9):
        train(step)
    if shows:
        assert [found.kind for found in model.monitor.findings][:1] == ["squashed_loss"]
    if goes_on:
        train(9)
    model.monitor.close()
    told = [str(one.message) for one in recwarn if "squashed_loss" in str(one.message)]
    assert len(told) == (goes_on or not shows)
