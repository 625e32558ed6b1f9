"""Rows of a bounded count: the first, the latest, and evenly some between."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from taiyi_fx.watch.thinned import BETWEEN, FIRST, LATEST, Thinned


def thinned(n):
    made = Thinned()
    for i in range(n):
        made.add(i)
    return made


@given(st.integers(0, 5000))
def test_the_first_and_the_latest_are_kept_in_order_and_the_count_is_bounded(n):
    rows = list(thinned(n))
    assert len(rows) == len(thinned(n)) <= FIRST + BETWEEN + LATEST
    assert rows == sorted(rows)
    assert rows[: min(n, FIRST)] == list(range(min(n, FIRST)))
    assert rows[-min(n, LATEST) or n :] == list(range(max(n - LATEST, 0), n))


def test_nothing_is_left_out_of_few():
    assert list(thinned(100)) == list(range(100))


def test_those_between_are_even():
    rows = list(thinned(10_000))[FIRST:-LATEST]
    gaps = {b - a for a, b in itertools.pairwise(rows)}
    assert len(gaps) == 1
    assert len(rows) > BETWEEN // 2 - 1
