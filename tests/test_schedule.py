from dataclasses import dataclass

import pytest

from taiyi_fx.schedule import (
    AFTER_ALL,
    Linear,
    adaptive,
    at_steps,
    every,
    is_any_due,
    linear,
    next_due,
    parse_schedule,
)


def due(schedule, until=15):
    return [step for step in range(until) if schedule.is_due(step)]


def test_linear_is_due_at_offset_and_each_interval_after():
    assert due(linear(5, 2)) == [2, 7, 12]
    assert due(parse_schedule("linear(5, 2)")) == [2, 7, 12]


def test_the_seeds_default_means_every_step():
    assert due(parse_schedule("linear(0, 0)")) == list(range(15))
    assert due(linear(0, 13)) == [13, 14]


def test_every_and_at_steps():
    assert due(every(6)) == due(parse_schedule(" every( 6 )")) == [0, 6, 12]
    assert due(at_steps(3, 1)) == due(parse_schedule("at_steps(1, 3)")) == [1, 3]


def test_adaptive_is_due_at_each_step_at_first_then_at_ever_fewer():
    steps = due(adaptive(8, 4), 400)
    assert steps[:4] == [0, 1, 2, 3]
    blocks = {(4, 8): 2, (8, 16): 4, (16, 400): 8}
    for (begin, end), gap in blocks.items():
        for start in range(begin, end, gap):
            assert len({*steps} & {*range(start, start + gap)}) == 1
    assert due(parse_schedule("adaptive(8, 4)"), 400) == steps


def test_adaptive_ends_at_its_interval_whichever_it_is():
    steps = due(adaptive(5, 3), 405)
    assert all(len({*steps} & {*range(start, start + 5)}) == 1 for start in range(15, 405, 5))
    assert due(adaptive(1, 1)) == list(range(15))


@pytest.mark.parametrize("period", [2, 3, 4, 5, 7, 8, 10, 16, 50, 64, 100])
def test_adaptive_keeps_time_with_nothing(period):
    steps = [step for step in due(adaptive(100, 20), 20_000) if step >= 20]
    counts = [sum(step % period == turn for step in steps) for turn in range(period)]
    assert min(counts) > 0
    assert max(counts) <= len(steps) / period + 8


def test_adaptive_begins_with_twenty_steps_if_nothing_is_said():
    assert adaptive(50) == parse_schedule("adaptive(50)") == adaptive(50, 20)


def test_a_raised_cadence_is_of_adaptive_schedules_alone():
    raised = range(151, 154)
    own = due(adaptive(50, 4), 157)
    steps = [step for step in range(147, 157) if is_any_due([adaptive(50, 4)], step, raised)]
    assert steps == sorted({151, 152, 153} | {step for step in own if step >= 147})
    assert not any(is_any_due([every(50), at_steps(3)], step, raised) for step in raised)


@pytest.mark.parametrize(
    "schedule",
    [
        *(linear(n, offset) for n in (0, 1, 7) for offset in (0, 3, 50)),
        *(adaptive(n, dense) for n in (1, 5, 8, 100) for dense in (1, 3, 20)),
        at_steps(0),
        at_steps(3, 90, 41),
    ],
    ids=str,
)
def test_the_next_due_step_is_the_first_that_is_due(schedule):
    steps = [*due(schedule, 300), AFTER_ALL]
    for step in range(91):
        expected = next(s for s in steps if s >= step)
        assert schedule.next_due(step) == next_due([schedule], step) == expected


def test_the_next_due_step_is_that_of_any_schedule_and_of_a_raised_cadence():
    rare = [every(50), at_steps(7), adaptive(64, 1)]
    for step in range(200):
        for raised in (range(0), range(70, 73)):
            expected = next(s for s in range(step, 999) if is_any_due(rare, s, raised))
            assert next_due(rare, step, raised) == expected
    assert next_due([every(50)], 60, range(70, 73)) == 100
    assert next_due([], 60) == AFTER_ALL


@dataclass(frozen=True)
class OddToo(Linear):
    """Due at other steps than the class that it is derived from."""

    def is_due(self, step):
        return step % 2 == 1 or super().is_due(step)


def test_a_schedule_of_the_users_own_may_be_due_at_each_step():
    assert next_due([OddToo(50)], 3) == 3
    assert next_due([every(50)], -3) == -3  # no step of a training


@pytest.mark.parametrize(
    "text", ["linear(5, 2)", "linear(0, 0)", "adaptive(20, 50)", "at_steps(1, 3)"]
)
def test_a_schedule_shows_the_text_that_makes_it(text):
    assert str(parse_schedule(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "linear", "linear()", "linear(1, 2, 3)", "linear(-1, 0)", "linear(a, b)", "every(0)",
     "every()", "adaptive()", "adaptive(0)", "adaptive(5, 0)", "adaptive(1, 2, 3)", "at_steps()", "cubic(1)", "linear(1.5, 0)", "linear(1,, 2)", "5"],
)  # fmt: skip
def test_anything_else_is_an_error_that_shows_the_text_and_what_is_allowed(text):
    with pytest.raises(ValueError, match=r"linear|every|adaptive|at_steps") as error:
        parse_schedule(text)
    assert "whole number" in str(error.value) or "allowed" in str(error.value)


@pytest.mark.parametrize(
    "make", [lambda: linear(-1), lambda: every(0), lambda: adaptive(5, 0), lambda: at_steps(-2)]
)
def test_numbers_that_make_no_sense_are_refused(make):
    with pytest.raises(ValueError, match="whole number"):
        make()
