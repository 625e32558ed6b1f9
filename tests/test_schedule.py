import pytest

from taiyi_fx.schedule import at_steps, every, linear, parse_schedule


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


@pytest.mark.parametrize("text", ["linear(5, 2)", "linear(0, 0)", "at_steps(1, 3)"])
def test_a_schedule_shows_the_text_that_makes_it(text):
    assert str(parse_schedule(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "linear", "linear()", "linear(1, 2, 3)", "linear(-1, 0)", "linear(a, b)", "every(0)",
     "every()", "at_steps()", "cubic(1)", "linear(1.5, 0)", "linear(1,, 2)", "5"],
)  # fmt: skip
def test_anything_else_is_an_error_that_shows_the_text_and_what_is_allowed(text):
    with pytest.raises(ValueError, match=r"linear|every|at_steps") as error:
        parse_schedule(text)
    assert "whole number" in str(error.value) or "allowed" in str(error.value)


@pytest.mark.parametrize("make", [lambda: linear(-1), lambda: every(0), lambda: at_steps(-2)])
def test_numbers_that_make_no_sense_are_refused(make):
    with pytest.raises(ValueError, match="whole number"):
        make()
