"""Schedules of learning rates that end long before the training, or begin anew again and again."""

import numpy as np
import pytest

from taiyi_fx.findings import GroupSettings
from taiyi_fx.findings.rules.optimizer.schedules import (
    ended_rates,
    faint_rates,
    raised_rates,
    restarted_warm_ups,
    rising_rates,
    slow_warm_ups,
)
from tests.findings.given import evidence, knowing

STEPS = np.arange(40)
COSINE = 0.05 * (1 + np.cos(np.pi * STEPS / 39))


def found_in(rate, name="LearningRate"):
    return [*ended_rates(evidence({("", name): rate}))]


@pytest.mark.parametrize("name", ["LearningRate", "LearningRate.group1"])
@pytest.mark.parametrize(
    "rate", [0.1 * 0.5**STEPS, np.where(STEPS < 23, 0.1, 0.0)], ids=["by batch", "to zero"]
)
def test_a_rate_that_is_nothing_for_two_fifths_of_the_training_is_told(rate, name):
    (found,) = found_in(rate, name)
    since = int(np.argmax(rate <= 1e-4))
    assert (found.kind, found.severity, found.step) == ("ended_rate", "warning", since)
    assert f"by step {since}" in found.text


@pytest.mark.parametrize(
    "rate",
    [
        np.full(40, 0.1),
        np.zeros(40),
        COSINE,
        np.concatenate([COSINE[::2], COSINE[::2]]),
        np.minimum(STEPS / 10, 1.0) * 0.1,
        np.where(STEPS < 10, 1e-6, 0.1),
        np.where(STEPS < 30, 0.1, 0.0),
        np.where((STEPS < 5) | (STEPS == 39), 0.1, 0.0),
        0.1 * 0.5 ** (STEPS // 5),
    ],
    ids=["one", "none", "cosine", "restarts", "warm-up", "begins", "ends", "alternates", "steps"],
)
def test_schedules_that_end_with_the_training_are_none(rate):
    assert found_in(rate) == []


EVERY = np.arange(120)
THINNED = np.unique(np.append(np.arange(16), np.arange(0, 120, 3)))
SAW = (1 + EVERY % 10) / 100
TRIANGLE = 0.01 + 0.01 * np.abs((EVERY + 10) % 20 - 10)
CYCLES = 1e-4 + 9e-4 * (EVERY % 20) / 19  # CyclicLR(step_size_up=19, step_size_down=1)
COSINES = 0.05 * (1.1 + np.cos(np.pi * (EVERY % 20) / 20))


def restarts_in(rate, steps=EVERY):
    return [*restarted_warm_ups(evidence({("", "LearningRate"): rate[steps]}, steps))]


# As a schedule that adapts reads: also from the middle of one climb to that of the next.
RARER = np.unique(np.concatenate([np.arange(25), np.arange(25, 120, 13), [52, 58, 61]]))


@pytest.mark.parametrize("steps", [EVERY, THINNED, RARER], ids=["all", "some", "rarer"])
def test_a_rate_that_climbs_anew_each_epoch_is_a_warning(steps):
    (found,) = restarts_in(SAW, steps)
    assert (found.severity, found.step, found.module) == ("warning", 10, "")
    assert "climbs to 0.1 and falls back to 0.01 by step 10" in found.text


@pytest.mark.parametrize("steps", [EVERY, THINNED, EVERY[::5], EVERY[::7]])
@pytest.mark.parametrize(
    "rate",
    [
        np.full(120, 0.1),
        np.minimum(EVERY / 20, 1.0),
        TRIANGLE,
        CYCLES,
        COSINES,
        COSINES[::-1],
        0.1 * 0.3 ** (EVERY // 30),
        np.where(EVERY < 60, EVERY, EVERY - 60) / 60,
        np.minimum(EVERY / 20, 1.0) * np.where(EVERY % 40 < 20, 1.0, 0.1),
    ],
    ids=[
        "one",
        "warm-up",
        "triangle",
        "cycles",
        "cosines",
        "up",
        "steps",
        "resumed once",
        "alternates",
    ],
)
def test_other_schedules_are_none(rate, steps):
    assert restarts_in(rate, steps) == []


FALLS = 2.3 * 0.97**STEPS + 0.02 * np.cos(STEPS)
RISES = np.where(STEPS < 21, FALLS, 3.0)


def raised_in(rate, loss, name="LearningRate"):
    return [*raised_rates(evidence({("", name): rate, ("", "loss"): loss}))]


@pytest.mark.parametrize("name", ["LearningRate", "LearningRate.group1"])
def test_a_rate_that_jumps_with_the_loss_is_told_with_both_rates_and_steps(name):
    (found,) = raised_in(np.where(STEPS < 20, 0.05, 1.0), RISES, name)
    assert (found.kind, found.module, found.step) == ("raised_rate", "", 20)
    assert "rises from 0.05 at step 19 to 1 at step 20, 20 times as much" in found.text


@pytest.mark.parametrize(
    ("rate", "loss"),
    [
        (np.where(STEPS < 20, 0.05, 1.0), FALLS),
        (np.where(STEPS < 20, 0.05, 0.1), RISES),
        (np.where(STEPS < 5, 0.05, 1.0), np.where(STEPS < 6, FALLS, 3.0)),
        (np.where((STEPS < 10) | (STEPS >= 20), 1.0, 0.01), RISES),
        (np.where(STEPS < 20, 0.0, 1.0), RISES),
        (np.where(STEPS < 20, 0.05, 1.0), np.where(STEPS == 22, 3.0, FALLS)),
        (np.where(STEPS < 38, 0.05, 1.0), np.where(STEPS < 38, FALLS, 3.0)),
    ],
    ids=["no harm", "a little", "at first", "again", "from nothing", "one batch", "at the end"],
)
def test_rates_that_rise_without_harm_or_to_what_they_were_are_none(rate, loss):
    assert raised_in(rate, loss) == []


CLIMB = 1e-4 * np.arange(1, 61)


def rising(rate, initial=1e-3):
    group = GroupSettings(("fc",), 0.9, False, "adam", initial=initial)
    known = evidence({("", "LearningRate"): rate}, np.arange(len(rate)))
    return [*rising_rates(knowing(known, group_settings=[group]))]


@pytest.mark.parametrize(("initial", "count"), [((6e-3, 1e-3), 1), ((1e-3, 6e-3), 0)])
def test_each_group_s_rate_is_beside_its_own_beginning(initial, count):
    groups = [GroupSettings((), 0.9, False, initial=one) for one in initial]
    known = evidence({("", "LearningRate.group1"): CLIMB}, np.arange(60))
    assert len([*rising_rates(knowing(known, group_settings=groups))]) == count


def test_a_warm_up_without_an_end_is_told_with_how_far_it_went():
    (found,) = rising(CLIMB)
    assert (found.kind, found.severity, found.step) == ("rising_rate", "note", 10)
    assert "is 0.006 at step 59, 6 times the 0.001 that the optimizer was made with" in found.text


@pytest.mark.parametrize(
    ("rate", "initial"),
    [
        (CLIMB, 0.0),
        (CLIMB, 6e-3),
        (CLIMB[:30], 1e-3),
        (np.minimum(CLIMB, 4e-3), 1e-3),
        (1e-4 * 1.1 ** np.arange(60), 1e-3),
        (np.full(60, 6e-3), 1e-3),
    ],
    ids=["no schedule", "a warm-up", "short", "ends", "tried out", "constant"],
)
def test_other_rates_do_not_rise_without_end(rate, initial):
    assert rising(rate, initial) == []


STAIRS = 2e-3 * (1 + np.arange(300) // 50) / 40


def climbing(rate, initial=2e-3, **others):
    group = GroupSettings(("fc",), 0.9, False, "adam", initial=initial, **others)
    known = evidence({("", "LearningRate"): rate}, np.arange(len(rate)))
    return [*slow_warm_ups(knowing(known, group_settings=[group]))]


def test_a_warm_up_that_is_stepped_by_epochs_is_told_with_how_far_it_has_come():
    (found,) = climbing(STAIRS)
    assert (found.kind, found.severity) == ("slow_warm_up", "note")
    assert "has come to 0.0003 by step 299, in 5 steps up: 15% of the 0.002" in found.text
    (of_cycle,) = climbing(STAIRS, 0.0, peak=2e-3)
    assert of_cycle == found


@pytest.mark.parametrize(
    ("rate", "initial"),
    [
        (STAIRS, 0.0),
        (STAIRS, 5e-4),
        (STAIRS[:99], 2e-3),
        (STAIRS[::-1], 2e-3),
        (2e-3 * np.arange(1, 301) / 4000, 2e-3),
        (np.full(300, 1e-4), 2e-3),
    ],
    ids=["no schedule", "far", "short", "falls", "by steps", "constant"],
)
def test_other_warm_ups_are_none(rate, initial):
    assert climbing(rate, initial) == []


def noam(steps, warm_up=120, width=64):
    steps = np.arange(1, steps + 1)
    return width**-0.5 * np.minimum(steps**-0.5, steps * warm_up**-1.5)


@pytest.mark.parametrize(
    ("rates", "initial", "is_told"),
    [
        (1e-3 * noam(400), 1e-3, True),
        (noam(400), 1.0, False),
        (1e-3 * noam(100), 1e-3, False),
        (1e-3 * noam(400), 0.0, False),
        (1e-5 * np.ones(400), 1e-3, False),
        (0.2 * noam(400) / noam(400).max(), 1.0, False),
    ],
    ids=["of Noam", "made with 1", "still warming up", "no schedule", "constant", "a fifth"],
)
def test_a_rate_that_never_comes_near_what_its_optimizer_was_made_with(rates, initial, is_told):
    group = GroupSettings(("fc",), 0.9, False, "adam", initial=initial)
    known = knowing(evidence({("", "LearningRate"): rates}), group_settings=[group])
    assert [one.kind for one in faint_rates(known)] == ["faint_rate"] * is_told
