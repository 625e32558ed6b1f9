"""Losses above that of the mean of the targets."""

import numpy as np
import pytest

from taiyi_fx.findings.facts.regression import Regression
from taiyi_fx.findings.rules.losses.worse_than_mean import worse_than_mean
from tests.findings.given import evidence, knowing

NOISE = np.random.default_rng(0).normal(0, 0.05, 200)
SLOWLY = 20 * np.exp(-np.arange(200) / 100)
"""Comes to 2.7, and still falls by more than a third in each fifth."""


def of(values, *, returned=1.0, target=1.0, mean=0.0, cost=1.0, name="loss"):
    first = Regression(64, cost, target, mean, returned)
    return knowing(evidence({("", name): values}), regressions={name: [first]})


@pytest.mark.parametrize(
    ("known", "severity", "words", "advice"),
    [
        (
            of(3 + NOISE),
            "warning",
            "the mean of the targets, as the same answer for every sample, costs 1",
            "axes",
        ),
        (of(SLOWLY), "note", "costs 1", "axes"),
        (of(SLOWLY, returned=7.0), "warning", "varied by 7, and the targets by 1", "smaller"),
        (of(3 + NOISE, mean=30.0), "warning", "near 30 in size, and vary by 1", "Subtract"),
    ],
    ids=["stays", "on its way", "large outputs", "far from 0"],
)
def test_a_loss_above_that_of_the_mean_is_told(known, severity, words, advice):
    (found,) = worse_than_mean(known)
    assert (found.kind, found.severity, found.module) == ("worse_than_mean", severity, "")
    assert words in found.text
    assert advice in found.advice


@pytest.mark.parametrize(
    "known",
    [
        of(1.5 + NOISE),
        of((3 + NOISE)[:60]),
        of(3 + NOISE, cost=0.0),
        of(3 + NOISE, cost=np.nan),
        of(3 + NOISE, name="loss_critic"),
        knowing(of(3 + NOISE), regressions={"loss": ()}),
    ],
    ids=["near it", "short", "one target", "not known", "a player's", "no error"],
)
def test_other_losses_are_not(known):
    assert [*worse_than_mean(known)] == []


@pytest.mark.parametrize(("cost", "is_told"), [(0.9, True), (2.0, False), (0.1, False)])
def test_targets_that_come_to_vary_as_those_of_a_policy_do_are_another_matter(cost, is_told):
    known = of(3 + NOISE)
    first = known.of_losses["loss"].regressions[0]
    later = first._replace(constant=cost)
    known = knowing(known, regressions={"loss": [first, later]})
    assert bool([*worse_than_mean(known)]) == is_told
