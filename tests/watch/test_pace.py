"""When rules are applied."""

from taiyi_fx.watch.pace import Pace


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def looks(steps, *, took=0.0, a_step=1.0, odd=(), waiting=()):
    clock = Clock()
    pace, found = Pace(clock), []
    for step in range(1, steps + 1):
        clock.now += a_step
        pace.count()
        if step in odd:
            pace.hurry()
        if pace.is_due:
            pace.begin()
            clock.now += took
            pace.end(is_waiting=step in waiting)
            found.append(step)
    return found


def test_looks_become_rarer_up_to_each_32_steps():
    assert looks(200) == [8, 16, 32, 64, 96, 128, 160, 192]


def test_after_64_steps_looks_take_half_a_percent_of_the_time_at_most():
    assert looks(64, took=10.0) == [8, 16, 32, 64]
    later = looks(20_000, took=10.0)[4:]
    assert 8 < len(later) <= 20_000 * 1.005 / 2000


def test_what_is_odd_is_looked_at_at_once_but_not_all_the_time():
    assert looks(40, odd=[3]) == [3, 11, 22]
    assert looks(100, odd=range(3, 100), took=10.0)[0] == 3
    assert len(looks(100, odd=range(3, 100))) <= 7


def test_a_finding_that_waits_is_looked_at_again_soon():
    assert looks(40, waiting=[16]) == [8, 16, 20, 40]
