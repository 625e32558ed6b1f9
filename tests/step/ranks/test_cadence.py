"""A wish is granted once, for the longest time that anyone wished."""

from taiyi_fx.step.ranks.cadence import Cadence


def test_the_longest_wish_counts():
    cadence = Cadence()
    cadence.wish(5)
    cadence.wish(3)
    assert cadence.wished == 5


def test_what_is_granted_is_taken_once_and_fulfils_the_wish():
    cadence = Cadence(wished=5)
    cadence.grant(8)
    cadence.grant(0)
    assert (cadence.wished, cadence.take(), cadence.take()) == (0, 8, 0)


def test_an_end_stays_until_another_training_begins():
    cadence = Cadence(wishes_end=True)
    cadence.grant(0, end=cadence.wishes_end)
    cadence.grant(3)
    assert cadence.is_end
    cadence.clear()
    assert cadence == Cadence()
