"""When rules are applied."""

from itertools import pairwise

from taiyi_fx.watch.pace import MOST, RAREST, Pace


def looks(steps, *, odd=(), waiting=(), every=1, rarest=RAREST):
    pace, found = Pace(), []
    pace.rarest = rarest
    for step in range(every, steps + 1, every):
        pace.count(every)
        if step in odd:
            pace.hurry()
        if pace.is_due:
            pace.end(is_waiting=step in waiting)
            found.append(step)
    return found


def test_looks_become_rarer_up_to_each_512_steps():
    assert looks(400) == [8, 16, 32, 64, 96, 128, 160, 200, 250, 312, 390]
    late = looks(10_000)[-8:]
    assert {b - a for a, b in pairwise(late)} == {512}
    assert len(looks(10_000)) == 34
    assert looks(1000, rarest=MOST)[-3:] == [928, 960, 992]


def test_what_is_odd_is_looked_at_at_once_but_not_all_the_time():
    assert looks(40, odd=[3]) == [3, 11, 22]
    assert looks(100, odd=range(3, 100))[0] == 3
    assert len(looks(100, odd=range(3, 100))) <= 7


def test_a_finding_that_waits_is_looked_at_again_soon():
    assert looks(40, waiting=[16]) == [8, 16, 20, 40]


def test_where_numbers_are_rare_steps_count_from_eight_numbers_on():
    assert looks(400, every=20) == [160, 200, 260, 340]


def test_a_finding_that_waits_for_rare_numbers_is_looked_at_when_32_steps_have_passed():
    assert looks(300, every=20, waiting=[200]) == [160, 200, 240, 300]
    assert looks(300, every=10, waiting=[120]) == [80, 120, 160, 200, 250]
    assert looks(300, every=5, waiting=[75]) == [40, 75, 95, 130, 165, 210, 265]


def test_numbers_after_the_last_look_are_unseen_if_there_are_enough_of_them():
    pace = Pace()
    seen = []
    for _ in range(9):
        pace.count()
        seen.append(pace.has_unseen)
    assert seen == [False] * 7 + [True] * 2
    pace.end(is_waiting=False)
    assert not pace.has_unseen
    pace.count()
    assert pace.has_unseen
