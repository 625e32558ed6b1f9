"""Losses that rise at one step to what an untrained model costs."""

import numpy as np
import pytest

from taiyi_fx.findings.rules.losses.shifts import relapses, shifts
from tests.findings.given import evidence, knowing

RNG = np.random.default_rng(0)
GUESS = float(np.log(10))


def course(at=50, peak=GUESS, lasts=10, n=100, low=0.1):
    """A loss that falls all the time, but for a rise that fades."""
    values = np.geomspace(GUESS, low, n) * RNG.uniform(0.9, 1.1, n)
    if at is not None:
        fades = np.geomspace(peak, values[at : at + lasts].mean(), lasts)
        values[at : at + lasts] = np.maximum(values[at : at + lasts], fades)
    return values


def found_for(values, classes=10, more=()):
    known = evidence({("", "loss"): values, **dict(more)})
    return [*shifts(knowing(known, classes={"loss": classes}))]


def test_what_is_lost_at_one_step_is_told_though_the_loss_still_falls():
    (found,) = found_for(course())
    assert (found.kind, found.severity, found.step) == ("loss_spike", "warning", 50)
    assert "an untrained model costs" in found.text


def test_of_a_loss_without_classes_it_is_a_note():
    """As of values that a copy of the model predicts, which is replaced now and then."""
    assert [one.severity for one in found_for(course(), classes=0)] == ["note"]


@pytest.mark.parametrize(
    "values",
    [
        course(at=None),
        course(lasts=1),
        course(peak=0.9),
        course(low=1.9),
        GUESS * np.ones(100),
        np.linspace(0.3, GUESS, 100),
    ],
    ids=["none", "one batch", "a part of it", "hardly learnt", "flat", "little by little"],
)
def test_other_courses_are_none(values):
    assert found_for(values) == []


def test_the_first_losses_count_where_no_classes_are_known():
    (found,) = found_for(100 * course(peak=GUESS * 1.2), classes=0)
    assert found.step == 50


def test_players_of_a_game_may_win_and_lose():
    assert found_for(course(), more={("discriminator.0", "OutputRMS"): 1.0}) == []


def saw(every=25, n=200, low=1.2, top=GUESS, first=0):
    """A loss that begins anew at each so many steps."""
    ramps = np.linspace(top, low, every)[np.arange(n - first) % every]
    return np.r_[np.linspace(GUESS, 1.2, 25)[:first], ramps] * RNG.uniform(0.97, 1.03, n)


def relapsing(values, classes=10, more=()):
    known = evidence({("", "loss"): values, **dict(more)})
    return [*relapses(knowing(known, classes={"loss": classes}))]


def test_what_is_lost_at_each_nth_step_is_told_with_the_number():
    (found,) = relapsing(saw())
    assert (found.kind, found.severity, found.step) == ("relapses", "warning", 25)
    assert "at each 25th step from 25 on" in found.text
    assert "every 25 steps" in found.advice


@pytest.mark.parametrize(
    "values",
    [
        course(),
        saw(n=70),
        saw(top=1.5),
        saw(every=6),
        np.r_[saw(n=80), saw(every=33, n=120)],
        np.geomspace(GUESS, 0.1, 200) * RNG.uniform(0.5, 1.5, 200),
    ],
    ids=["once", "twice", "a part", "all the time", "at any time", "noise"],
)
def test_other_losses_do_not_relapse(values):
    assert relapsing(values) == []


def test_a_schedule_that_begins_anew_and_targets_that_do_are_none():
    rates = np.linspace(0.1, 0.001, 25)[np.arange(200) % 25]
    assert relapsing(saw(), more={("", "LearningRate"): rates}) == []
    assert relapsing(saw(), classes=0) == []
