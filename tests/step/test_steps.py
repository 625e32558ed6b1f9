"""The steps of a training: counted, prepared for, and read more densely where that was wished."""

import pytest

from taiyi_fx import MonitorWarning
from taiyi_fx.step.due import DueTable
from taiyi_fx.step.steps import Steps
from tests.step.given import Given

CFG = {"0": [["InputMean", "every(2)"], ["OutputRMS", "adaptive(50, 1)"]]}


class Forwards:
    """Notes the readings that forwards are to make."""

    def __init__(self):
        self.due, self.ended = frozenset(), 0

    def set_due(self, due):
        self.due = due

    def end_step(self):
        self.ended += 1

    @property
    def labels(self):
        return sorted({str(reading.site) for _, reading in self.due})


@pytest.fixture
def forwards():
    return Forwards()


@pytest.fixture
def steps(forwards):
    given = Given(CFG)
    return Steps(DueTable(given.subscriptions, given.modules), forwards, 0)


def test_forwards_are_prepared_for_the_first_step_and_after_each_for_the_next(steps, forwards):
    assert (steps.next, forwards.labels) == (0, ["input", "output"])
    for step in (0, 1):
        steps.end(step, is_alone=True)
    assert (steps.next, forwards.labels, forwards.ended) == (2, ["input"], 2)


def test_a_body_reads_for_another_step_which_is_prepared_from_then_on(steps, forwards):
    with steps.at(3):
        assert (steps.next, forwards.labels) == (3, [])
    assert (steps.next, forwards.labels) == (0, ["input", "output"])
    assert steps.is_prepared(3)
    assert steps.is_prepared(0)
    assert not steps.is_prepared(1)


RARE = {"0": [["InputMean", "every(16)"], ["OutputRMS", "adaptive(10, 1)"]]}


@pytest.fixture
def rare(forwards):
    given = Given(RARE)
    return Steps(DueTable(given.subscriptions, given.modules), forwards, 11)


def test_a_step_is_read_where_all_that_is_due_at_it_was_due_at_the_prepared_one(steps):
    assert steps.is_read(4)  # both input and output are read for step 0
    steps.prepare(1)
    assert not steps.is_read(4)
    assert steps.is_read(5)


def test_steps_are_passed_over_up_to_the_one_before_a_due_one(rare, forwards):
    assert [rare.pass_over(step) for step in range(11, 16)] == [True] * 4 + [False]
    assert rare.next == 15
    rare.warn_of_order(15)  # a warning would be an error
    rare.end(15, is_alone=True)
    assert forwards.labels == ["input", "output"]
    assert not rare.pass_over(16)


def test_no_step_is_passed_over_that_forwards_were_not_prepared_for(rare):
    assert not rare.pass_over(12)
    with rare.at(14):
        pass
    assert not rare.pass_over(11)  # readings for step 15 may be there
    rare.end(11, is_alone=True)
    assert rare.pass_over(12)


def test_no_step_is_passed_over_where_the_cadence_is_to_be_raised(rare, forwards):
    rare.cadence.wish(2)
    assert not rare.pass_over(11)
    rare.end(11, is_alone=True)
    assert not rare.pass_over(12)
    assert forwards.labels == ["output"]
    rare.end(12, is_alone=True)
    rare.end(13, is_alone=True)
    assert rare.pass_over(14)


def test_no_step_is_passed_over_in_a_pause(rare, forwards):
    rare.pause()
    rare.prepare(11)
    assert not rare.pass_over(11)
    rare.resume()
    assert rare.pass_over(11)


def test_a_step_that_was_tracked_in_the_body_is_followed_by_the_one_after_it(steps):
    with steps.at(3):
        steps.end(3, is_alone=True)
    assert steps.next == 4


def test_a_pause_reads_nothing_whatever_is_prepared(steps, forwards):
    steps.pause()
    steps.end(1, is_alone=True)
    assert (steps.next, forwards.labels) == (2, [])
    steps.resume()
    assert forwards.labels == ["input"]


def test_what_is_wished_of_the_cadence_is_granted_alone_but_not_for_other_ranks(steps, forwards):
    steps.cadence.wish(2)
    steps.end(0, is_alone=False)
    assert (steps.raised, forwards.labels) == (range(0), [])
    steps.end(1, is_alone=True)
    assert (steps.raised, forwards.labels) == (range(2, 4), ["input", "output"])


def test_another_training_begins_without_wishes_and_without_a_last_step(steps):
    steps.cadence.wish(2)
    steps.cadence.wishes_end = True
    steps.end(0, is_alone=True)
    steps.count(0)
    steps.start_at(0)
    assert not steps.cadence.is_end
    assert steps.raised == range(0)
    steps.warn_of_order(0)  # a warning would be an error


def test_a_step_counts_once(steps):
    assert [steps.count(step) for step in (0, 0, 1)] == [False, True, False]


def test_a_step_tracked_twice_and_one_before_the_last_are_warned_of_once_each(steps):
    steps.end(2, is_alone=True)
    steps.count(2)
    with pytest.warns(MonitorWarning) as caught:
        [steps.warn_of_order(step) for step in (2, 2, 1, 1, 3)]
    first, second = (str(one.message) for one in caught)
    assert first.startswith("track(2) was called twice")
    assert second.startswith("track(1) was called after track(2)")
