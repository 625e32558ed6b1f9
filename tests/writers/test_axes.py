"""Colours, scales and names of pictures."""

import math

import numpy as np
import pytest

from taiyi_fx.writers.axes import edges, every_few, in_order, is_log, shortened, some, text


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1, 29], False), ([1, 31], True), ([0, 100], False), ([-1, 100], False), ([], False)],
)
def test_a_logarithm_is_for_positive_numbers_that_differ_thirtyfold(values, expected):
    assert is_log(np.array(values, float)) == expected


@pytest.mark.parametrize("steps", [[3], [0, 10], [0, 1, 10, 100]])
def test_each_step_lies_within_its_cell(steps):
    ends = edges(np.array(steps))
    assert len(ends) == len(steps) + 1
    assert (ends[:-1] < steps).all()
    assert (steps < ends[1:]).all()


@pytest.mark.parametrize(("count", "most"), [(1, 40), (40, 40), (41, 40), (1000, 7)])
def test_chosen_indices_are_at_most_so_many_and_begin_at_the_first(count, most):
    assert some(count, most)[0] == 0
    assert some(count, most)[-1] == count - 1
    assert len(some(count, most)) == min(count, most)
    rows = every_few(count, most)
    assert rows[0] == 0
    assert len(rows) <= most
    assert set(np.diff(rows)) <= {math.ceil(count / most)}


def test_a_common_beginning_is_taken_off_at_a_dot():
    assert shortened(["net.layer1.fc", "net.layer10.fc"]) == ("net.", ["layer1.fc", "layer10.fc"])
    assert shortened(["net.fc"]) == ("", ["net.fc"])
    assert shortened(["", "fc"]) == ("", ["the model", "fc"])


def test_a_name_is_shown_in_characters_that_fonts_have():
    assert text("fc.é") == "fc.é"
    assert text("a\n🦜") == r"a\n\U0001f99c"
    assert len(text("🦜" * 100)) <= 40


def test_colours_in_order_go_from_dark_to_light():
    brightness = in_order(9)[:, :3].sum(axis=1)
    assert (np.diff(brightness) > 0).all()
