"""The tracker makes records of steps, and says what was tracked in vain."""

import pytest
import torch

from taiyi_fx import MonitorWarning
from taiyi_fx.step.statistics import Scale
from tests.step.given import Given

CFG = {"0": ["InputMean", ["OutputRMS", "adaptive(50, 1)"]]}


@pytest.fixture
def given():
    return Given(CFG)


def forward(given, step):
    given.model(torch.full((2, 3), float(step))).sum().backward()


def labels(given, step):
    return [s.label for s, _ in given.monitor._tracker.steps.due_at(step).asked]


def test_a_tracked_step_is_recorded_and_the_next_one_prepared(given):
    tracker = given.monitor._tracker
    for step in range(3):
        forward(given, step)
        assert tracker.track(step, Scale(), waits=False)
    assert tracker.steps.next == 3
    found = [(r.step, r.value) for r in tracker.finish() if r.quantity == "InputMean"]
    assert found == [(0, 0.0), (1, 1.0), (2, 2.0)]


def test_a_step_that_fails_is_dropped_by_name_and_the_next_one_is_recorded(given, monkeypatch):
    tracker = given.monitor._tracker
    collect = tracker._collector.collect

    def fails_at_first(due, step, *rest, **options):
        if step == 0:
            raise MemoryError("no more")
        return collect(due, step, *rest, **options)

    monkeypatch.setattr(tracker._collector, "collect", fails_at_first)
    forward(given, 0)
    with pytest.warns(MonitorWarning, match="step 0 is dropped: MemoryError: no more"):
        assert not tracker.track(0, Scale(), waits=False)
    forward(given, 1)
    assert tracker.track(1, Scale(), waits=False)
    assert [r.step for r in tracker.finish() if r.quantity == "InputMean"] == [1]


def test_a_wish_reads_each_of_the_next_steps_and_an_end_is_one(given):
    tracker = given.monitor._tracker
    assert [labels(given, step) for step in (1, 2)] == [["InputMean"]] * 2
    tracker.wish(0, reads_densely=True, ends=False)
    assert [labels(given, step) for step in (1, 20)] == [["InputMean", "OutputRMS"]] * 2
    assert labels(given, 21) == ["InputMean"]
    assert not tracker.steps.cadence.is_end
    tracker.wish(0, reads_densely=False, ends=True)
    assert tracker.steps.cadence.is_end


def test_forwards_that_were_never_tracked_are_told_and_others_are_not(given):
    tracker = given.monitor._tracker
    tracker.warn_if_never_tracked()  # a warning would be an error
    forward(given, 0)
    with pytest.warns(MonitorWarning, match="track was never called"):
        tracker.warn_if_never_tracked()
    tracker.begin()
    tracker.warn_if_never_tracked()


def test_a_rank_surely_records_where_no_other_may_be_joined(given):
    assert given.monitor._tracker.surely_records  # torch.distributed is not initialised
    assert given.monitor._tracker.is_alone
    assert given.monitor._tracker.writer is None
