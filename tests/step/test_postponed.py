from taiyi_fx.step.postponed import FIRST, MOST, SECONDS, Postponed
from taiyi_fx.step.statistics import Scale


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def recorded(postponed):
    return [(step, left) for step, _, left in postponed.taken()]


def after_the_first(clock):
    postponed = Postponed(clock)
    for step in range(FIRST):
        postponed.add(step, Scale())
        assert postponed.are_due
        assert recorded(postponed) == [(step, 0)]
    return postponed


def test_the_first_steps_are_recorded_at_once_and_later_ones_several_together():
    postponed = after_the_first(Clock())
    for step in range(MOST - 1):
        postponed.add(step, Scale())
        assert not postponed.are_due
    postponed.add(MOST - 1, Scale())
    assert postponed.are_due
    assert recorded(postponed) == [(step, MOST - 1 - step) for step in range(MOST)]


def test_no_step_waits_long():
    clock = Clock()
    postponed = after_the_first(clock)
    postponed.add(0, Scale())
    assert not postponed.are_due
    clock.now += SECONDS
    assert postponed.are_due
    assert recorded(postponed) == [(0, 0)]
    postponed.add(1, Scale())
    assert not postponed.are_due


def test_steps_are_waiting_while_none_is_due():
    clock = Clock()
    postponed = after_the_first(clock)
    assert not postponed.are_waiting
    postponed.add(0, Scale())
    assert postponed.are_waiting
    clock.now += SECONDS
    assert not postponed.are_waiting


def test_a_step_that_was_taken_is_not_taken_again_after_an_error():
    postponed = after_the_first(Clock())
    for step in range(3):
        postponed.add(step, Scale(calls=step))
    taken = postponed.taken()
    step, scale, left = next(taken)
    assert (step, scale.calls, left) == (0, 0, 2)
    assert recorded(postponed) == [(1, 1), (2, 0)]
