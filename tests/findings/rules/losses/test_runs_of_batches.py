"""Losses that move in runs of like batches."""

from dataclasses import replace

import numpy as np
import pytest

from taiyi_fx.findings import LossGraph, Targets
from taiyi_fx.findings.facts.logits import Logits
from taiyi_fx.findings.rules.losses.runs_of_batches import sorted_batches
from tests.findings.given import evidence, knowing

STEPS = np.arange(120)
NOISE = np.random.default_rng(0).normal(size=120)
RUNS = 2.4 + 0.5 * np.random.default_rng(1).normal(size=20).repeat(6) + 0.01 * NOISE


def found_in(values, classes=10, steps=None):
    known = evidence({("", "loss"): values}, steps)
    return [*sorted_batches(knowing(known, classes={"loss": classes}))]


def test_runs_that_are_worse_than_a_guess_are_a_warning():
    assert found_in(np.tile(RUNS, 5))
    (found,) = found_in(RUNS)
    assert (found.kind, found.severity, found.module) == ("sorted_batches", "warning", "")
    assert "a guess among 10 classes (2.3)" in found.text


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_guess_costs_more_of_a_loss_with_other_terms(is_whole):
    logits = Logits("head", 64, 10, is_output=True, is_mean=True, is_whole=is_whole)
    known = knowing(evidence({("", "loss"): RUNS}), classes={"loss": 10})
    known = knowing(known, loss_graphs={"loss": LossGraph(logits=logits)})
    assert bool([*sorted_batches(known)]) == is_whole


@pytest.mark.parametrize(
    "values",
    [
        2.4 + 0.5 * NOISE,
        0.01 * NOISE + 3 * np.exp(-STEPS / 60),
        2.5 + np.sin(STEPS / 40),
        RUNS - 2,
        RUNS * 100,
        2.4 + 0.5 * np.sin(STEPS / 3) + 0.01 * NOISE,
        2.4 + 0.01 * (RUNS - 2.4),
        RUNS[:50],
        np.append([12, 12, 12], np.tile(RUNS, 5)),
    ],
    ids=[
        "at random",
        "falls",
        "two runs",
        "better than a guess",
        "wild",
        "a wave",
        "narrow",
        "few",
        "of scaled cosines",
    ],
)
def test_other_losses_are_none(values):
    assert found_in(values) == []


def test_steps_between_which_others_lie_say_nothing():
    assert found_in(RUNS, steps=10 * STEPS) == []


def test_where_classes_are_not_known_nothing_is_said():
    assert found_in(RUNS, classes=0) == []


def test_of_parts_none_is_sorted_where_the_whole_is_not():
    numbers = {("", "kl_loss"): RUNS, ("", "loss"): 2.4 + 0.5 * NOISE}
    known = knowing(evidence(numbers), classes=dict.fromkeys(("loss", "kl_loss"), 10))
    assert [*sorted_batches(known)] == []
    assert len([*sorted_batches(replace(known, series=known.series[:1]))]) == 1


def of_batches(*ranges, cases=32, is_of_two=False):
    known = evidence({("", "loss"): 2.4 + 0.01 * NOISE})
    targets = [Targets(cases, is_of_two, *each) for each in ranges]
    return [*sorted_batches(knowing(known, targets={"loss": targets}))]


def test_batches_of_one_class_each_are_told_whatever_the_loss():
    (found,) = of_batches((0, 0), (0, 0), (3, 3), (4, 5), (7, 7))
    assert (found.kind, found.severity, found.module) == ("sorted_batches", "warning", "")
    assert "in 4 of the 5 batches that were looked at (32 targets in the first)" in found.text
    assert found.text.endswith("of the classes 0, 0, 3 and 7")


@pytest.mark.parametrize(
    ("ranges", "others"),
    [
        ([(0, 9), (0, 0), (3, 3), (4, 4), (7, 7)], {}),
        ([(0, 0), (0, 9), (3, 3), (0, 9), (7, 7)], {}),
        ([(0, 0)] * 5, {}),
        ([(0, 0), (3, 3)], {}),
        ([(0, 0), (1, 1), (2, 2)], {"cases": 4}),
        ([(0, 0), (1, 1), (0, 0)], {"is_of_two": True}),
    ],
    ids=["mixed at first", "mixed now and then", "the same", "few", "of few", "of a judge"],
)
def test_other_batches_are_none(ranges, others):
    assert of_batches(*ranges, **others) == []


def test_the_loss_of_a_player_goes_up_and_down_by_itself():
    known = evidence({("", "loss of the generator"): RUNS})
    assert [*sorted_batches(knowing(known, classes={"loss of the generator": 10}))] == []
