"""The tracker makes records of steps, and says what was tracked in vain."""

import pytest
import torch

from taiyi_fx import MonitorWarning
from taiyi_fx.step.postponed import Postponed
from taiyi_fx.step.statistics import Scale
from taiyi_fx.writers import CSV
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
        assert tracker.track(step, Scale())
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
        assert not tracker.track(0, Scale())
    forward(given, 1)
    assert tracker.track(1, Scale())
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


def trained(steps, monkeypatch, **options):
    """A monitor all of whose steps are recorded as late as can be."""
    monkeypatch.setattr(Postponed, "are_due", False)
    given = Given({"0": ["InputMean"]}, **options)
    for step in range(steps):
        forward(given, step)
        given.monitor.track(step)
    return given.monitor


def waiting(monitor):
    return len([*monitor._tracker._queue._waiting[0]])


def test_who_asks_for_records_gets_those_of_postponed_steps(monkeypatch):
    monitor = trained(3, monkeypatch)
    assert waiting(monitor) == 3
    assert [(r.step, r.value) for r in monitor.records] == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert waiting(monitor) == 0


@pytest.mark.parametrize(
    "ask",
    [
        lambda monitor: monitor.tick_epoch(),
        repr,
        lambda monitor: monitor.findings,
        lambda monitor: monitor.explain("0", "InputMean"),
        lambda monitor: monitor.start_at(7),
        lambda monitor: monitor.close(),
        lambda monitor: setattr(monitor, "on_finding", print),
    ],
)
def test_nothing_that_a_monitor_tells_leaves_out_postponed_steps(ask, monkeypatch):
    monitor = trained(3, monkeypatch)
    ask(monitor)
    assert waiting(monitor) == 0


def test_a_writer_that_is_added_gets_no_earlier_steps(monkeypatch, tmp_path):
    monitor = trained(3, monkeypatch)
    monitor.add_writer(CSV(tmp_path / "numbers.csv"))
    monitor.close()
    assert "InputMean" not in (tmp_path / "numbers.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("options", [{"strict": True}, {"on_finding": print}])
def test_no_step_is_postponed_where_something_follows_from_its_numbers(options, monkeypatch):
    assert waiting(trained(3, monkeypatch, **options)) == 0


def test_no_step_is_postponed_where_findings_change_what_is_due(monkeypatch):
    monkeypatch.setattr(Postponed, "are_due", False)
    given = Given(CFG)
    forward(given, 0)
    given.monitor.track(0)
    assert waiting(given.monitor) == 0


def test_no_step_is_postponed_while_a_value_is_missing(monkeypatch):
    monkeypatch.setattr(Postponed, "are_due", False)
    given = Given({"0": ["InputMean"]})
    with pytest.warns(MonitorWarning, match="InputMean"):
        given.monitor.track(0)
    forward(given, 1)
    given.monitor.track(1)
    assert waiting(given.monitor) == 0
    assert not given.monitor.missing
