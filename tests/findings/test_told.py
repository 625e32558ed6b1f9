"""What monitors found, and what numbers show beside it."""

import dataclasses

import pytest

from taiyi_fx.findings.told import Told, find_beside
from tests.findings.given import evidence
from tests.watch.given import finding

SHOWN = [finding("outlier", module="a", step=3), finding("growth", module="b", step=12)]
NUMBERS = evidence({("a", "OutputRMS"): 1.0, ("b", "OutputRMS"): 1.0}, range(16))


@pytest.fixture
def beside(monkeypatch):
    """The findings beside those of monitors, of numbers that show some."""
    monkeypatch.setattr("taiyi_fx.findings.told.find", lambda _: SHOWN)
    return lambda told: find_beside(told, NUMBERS)


def test_without_a_monitor_it_is_what_numbers_show(beside):
    assert beside([]) == beside([Told(0, -1, ())]) == SHOWN


def test_of_steps_that_it_looked_at_the_monitor_is_right(beside):
    frozen = finding("frozen_adapters", severity="warning", step=0)
    assert beside([Told(0, 20, [frozen])]) == [frozen]
    assert beside([Told(0, 20, ())]) == []


def test_numbers_of_other_steps_show_more_the_urgent_first(beside):
    frozen = finding("frozen_adapters", severity="warning", step=0)
    assert beside([Told(0, 10, [frozen])]) == [SHOWN[1], frozen]
    assert beside([Told(5, 20, [frozen])]) == [SHOWN[0], frozen]


def test_what_was_told_is_there_once_even_as_a_consequence(beside):
    again = dataclasses.replace(SHOWN[1], step=4)
    cause = finding("odd_rate", module="b", step=0, consequences=(again,))
    assert beside([Told(0, 10, [cause])]) == [cause]


def test_of_parts_each_has_to_have_looked_at_a_step(beside):
    frozen = finding("frozen_adapters", severity="warning", step=0)
    told = [Told(0, 20, [frozen]), Told(0, 8, ())]
    assert beside(told) == [SHOWN[1], frozen]


def test_where_all_steps_were_looked_at_no_rule_is_applied(monkeypatch):
    monkeypatch.setattr("taiyi_fx.findings.told.find", None)
    assert find_beside([Told(0, 15, SHOWN)], NUMBERS) == SHOWN
    assert find_beside([Told(0, 15, ())], NUMBERS).looked_at == NUMBERS.extent
    with pytest.raises(TypeError):
        find_beside([Told(0, 14, SHOWN)], NUMBERS)
