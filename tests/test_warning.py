"""Warnings: told at the line of the user's that led to them."""

import pytest

from taiyi_fx import MonitorWarning
from taiyi_fx.warning import WarnOnce, warn, warn_of


@pytest.mark.parametrize(
    ("caller", "place"),
    [("taiyi_fx.trainers.inner", __file__), ("taiyi_fx_of_mine", "<string>")],
)
def test_a_warning_is_told_where_the_package_was_called(caller, place):
    there = {"__name__": caller, "warn": warn}
    exec("def track(): warn('no value')", there)
    with pytest.warns(MonitorWarning, match="no value") as caught:
        there["track"]()
    assert [told.filename for told in caught] == [place]


def test_several_failures_are_one_warning_and_none_is_none():
    warn_of([])  # a warning would be an error
    with pytest.warns(MonitorWarning) as caught:
        warn_of(["one", "two"])
    assert [str(told.message) for told in caught] == ["one\ntwo"]


def test_each_matter_is_warned_of_once():
    warn_once = WarnOnce()
    with pytest.warns(MonitorWarning) as caught:
        [warn_once.of(matter, f"{matter} it is") for matter in ("a", "b", "a")]
    assert [str(told.message) for told in caught] == ["a it is", "b it is"]
