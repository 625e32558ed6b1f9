"""The due table: each combination of due schedules is made once, and asks for what is due."""

import pytest
from torch import nn

import taiyi_fx
from taiyi_fx.schedule import AFTER_ALL
from taiyi_fx.step.due import DueTable
from tests.step.given import Given

CFG = {
    "0": [["InputSndNorm", "every(2)"], ["OutputRMS", "every(3)"], ["WeightNorm", "at_steps(4)"]],
    "1": [["InputSndNorm", "every(2)"]],
}


def table(cfg, model=None):
    given = Given(cfg, model)
    return DueTable(given.subscriptions, given.modules)


def asked(work):
    return [(s.module, s.label, is_emitted) for s, is_emitted in work.asked]


@pytest.mark.parametrize("step", range(13))
def test_a_step_asks_for_what_its_schedules_say(step):
    due = table(CFG)
    norm, rms = step % 2 == 0, step % 3 == 0
    expected = [("0", "InputSndNorm", True)] * norm + [("0", "OutputRMS", True)] * rms
    expected += [("0", "WeightNorm", True)] * (step == 4) + [("1", "InputSndNorm", True)] * norm
    assert asked(due.at(step)) == expected


def test_equal_combinations_are_one_and_the_same_object():
    due = table({"0": [["InputSndNorm", "every(2)"], ["OutputRMS", "every(3)"]]})
    steps = [due.at(step) for step in range(12)]
    assert steps[:6] == steps[6:]
    assert len(set(steps)) == 4


def test_forwards_read_what_is_at_calls_and_track_the_parameters():
    work = table(CFG).at(4)
    assert {module for module, _ in work.readings} == {"0", "1"}
    assert {str(reading.site) for _, reading in work.readings} == {"input"}
    (parameters,) = work.parameters
    assert [(module, reading.site.pick) for module, reading in parameters.rows] == [("0", "weight")]


def test_a_window_goes_on_at_steps_that_emit_nothing_until_none_will():
    cfg = {"0": [["MeanTID", "at_steps(2)"]]}
    due = table(cfg, nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1)))
    found = [[is_emitted for _, is_emitted in due.at(step).asked] for step in range(5)]
    assert found == [[False], [False], [True], [], []]


MIXED = {"0": [["InputSndNorm", "adaptive(50, 1)"], ["OutputRMS", "every(50)"]]}


def labels(due, steps):
    return {step: [s.label for s, _ in due.at(step).asked] for step in steps}


def test_after_a_raise_adaptive_schedules_are_due_at_each_of_so_many_steps():
    due = table(MIXED)
    due.raise_after(73, 3)
    norm = ["InputSndNorm"]
    assert labels(due, range(73, 78)) == {73: [], 74: norm, 75: norm, 76: norm, 77: []}


def test_a_raise_within_another_extends_it_and_takes_nothing_back():
    due = table(MIXED)
    due.raise_after(73, 3)
    due.raise_after(75, 4)
    due.raise_after(76, 1)
    assert due.raised == range(74, 80)
    due.raise_after(79, 2)
    assert due.raised == range(74, 82)
    due.raise_after(90, 2)
    assert due.raised == range(91, 93)


def test_a_raised_cadence_makes_no_combination_that_was_not_there():
    due = table({"0": [["InputSndNorm", "adaptive(50, 5)"], ["OutputRMS", "adaptive(50, 5)"]]})
    plain = {due.at(step) for step in range(60)}
    due.raise_after(60, 20)
    assert {due.at(step) for step in range(60, 120)} == plain
    assert len(plain) == 2


def test_a_window_of_due_steps_reads_nothing_between():
    cfg = {"0": [["MeanTID", "every(3)", {"window": "due"}]]}
    due = table(cfg, nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1)))
    assert [len(due.at(step).asked) for step in range(5)] == [1, 0, 0, 1, 0]
    assert due.at(1).readings == frozenset()


def test_nothing_is_due_of_nothing():
    work = table({}).at(0)
    assert (work.asked, work.parameters, work.readings) == ((), (), frozenset())


@pytest.mark.parametrize(
    "cfg",
    [
        CFG,
        MIXED,
        {"0": [["InputSndNorm", "at_steps(3)"], ["WeightNorm", "linear(20, 7)"]]},
        {"0": [["InputSndNorm", "at_steps(3, 5)"]]},
        {},
    ],
)
def test_between_a_step_and_the_next_change_the_work_is_the_same(cfg):
    due = table(cfg)
    due.raise_after(40, 3)
    for step in range(60):
        change = due.next_change(step)
        assert {due.at(between) for between in range(step, min(change, 200))} == {due.at(step)}
        is_constant = not due.at(step).is_nothing  # it may change, as far as is known
        assert change > 200 or is_constant or not due.at(change).is_nothing


def test_work_of_each_step_never_changes():
    due = table({"0": ["InputSndNorm", ["WeightNorm", "linear(1, 5)"]]})
    assert [due.next_change(step) for step in (0, 3, 5)] == [5, 5, AFTER_ALL]


def test_the_work_of_a_window_is_the_same_until_it_is_due_and_gone_after_it():
    cfg = {"0": [["MeanTID", "at_steps(2)"]]}
    due = table(cfg, nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1)))
    assert [due.next_change(step) for step in range(4)] == [2, 2, 3, AFTER_ALL]


def test_a_recorder_follows_each_step():
    given = Given({"0": [["InputSndNorm", "every(50)"]]}, recorder=taiyi_fx.Recorder(every=10))
    due = given.monitor._tracker.steps._due
    assert [due.next_change(step) for step in (1, 2)] == [2, 3]
