"""What monitors found, and what numbers show beside it."""

import dataclasses

from taiyi_fx.findings.told import Told, with_told
from tests.watch.given import finding

SHOWN = [finding("outlier", module="a", step=3), finding("growth", module="b", step=12)]


def test_without_a_monitor_it_is_what_numbers_show():
    assert with_told(SHOWN, []) == with_told(SHOWN, [Told(0, -1, ())]) == SHOWN


def test_of_steps_that_it_looked_at_the_monitor_is_right():
    frozen = finding("frozen_adapters", severity="warning", step=0)
    assert with_told(SHOWN, [Told(0, 20, [frozen])]) == [frozen]
    assert with_told(SHOWN, [Told(0, 20, ())]) == []


def test_numbers_of_other_steps_show_more_the_urgent_first():
    frozen = finding("frozen_adapters", severity="warning", step=0)
    assert with_told(SHOWN, [Told(0, 10, [frozen])]) == [SHOWN[1], frozen]
    assert with_told(SHOWN, [Told(5, 20, [frozen])]) == [SHOWN[0], frozen]


def test_what_was_told_is_there_once_even_as_a_consequence():
    again = dataclasses.replace(SHOWN[1], step=4)
    cause = finding("odd_rate", module="b", step=0, consequences=(again,))
    assert with_told(SHOWN, [Told(0, 10, [cause])]) == [cause]


def test_of_parts_each_has_to_have_looked_at_a_step():
    frozen = finding("frozen_adapters", severity="warning", step=0)
    told = [Told(0, 20, [frozen]), Told(0, 8, ())]
    assert with_told(SHOWN, told) == [SHOWN[1], frozen]
