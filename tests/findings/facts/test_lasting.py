"""States that last."""

import numpy as np
import pytest

from taiyi_fx.findings.facts.lasting import ends, lasting, mostly, since


@pytest.mark.parametrize(
    ("is_so", "expected"),
    [("1" * 7, False), ("1" * 8, True), ("0" * 10 + "1" * 10, True), ("0" * 11 + "1" * 9, False)],
)
def test_a_state_lasts_for_half_of_all_and_for_eight_numbers(is_so, expected):
    assert lasting(np.array([*map(int, is_so)], bool)) == expected


def test_most_of_the_last_half_may_have_a_gap_but_not_at_its_end():
    is_so = np.ones(40, bool)
    is_so[25] = False
    assert mostly(is_so)
    assert not lasting(is_so)
    is_so[39] = False
    assert not mostly(is_so)


def test_it_is_so_from_the_number_after_the_last_other_one():
    assert since(np.array([True, False, True, True])) == 2
    assert since(np.ones(3, bool)) == 0


@pytest.mark.parametrize(
    ("is_so", "expected"),
    [("1" * 7, False), ("0" * 32 + "1" * 8, True), ("0" * 42 + "1" * 8, False), ("01" * 20, False)],
)
def test_it_ends_so_if_it_is_so_at_a_fifth_and_at_eight_numbers(is_so, expected):
    assert ends(np.array([*map(int, is_so)], bool)) == expected
