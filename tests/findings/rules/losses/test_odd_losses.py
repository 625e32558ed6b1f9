"""Losses of a size that their logits do not explain."""

from dataclasses import replace

import numpy as np
import pytest

from taiyi_fx.findings import LossGraph
from taiyi_fx.findings.facts.logits import Logits
from taiyi_fx.findings.rules.losses.odd_losses import odd_losses
from tests.findings.given import evidence, knowing

CASES, CLASSES = 64, 10
GUESS = float(np.log(CLASSES))
USUAL = 1 / CASES / CLASSES**0.5
"""The gradient's size at the start of a mean."""


def found_for(
    loss, rms=0.1, gradient=USUAL, steps=None, calls=(), parts=None, forwards=1, **of_logits
):
    logits = Logits("head", CASES, CLASSES, True, True, True)._replace(**of_logits)
    numbers = {("", name): [cost] * 10 for name, cost in {**(parts or {}), "loss": loss}.items()}
    for module in ("head", *calls):
        numbers |= {(module, "OutputRMS"): [rms] * 10, (module, "OutputAbsMax"): [4 * rms] * 10}
        numbers |= {(module, "OutputGradRMS"): [gradient] * 10}
    graphs = {"loss": LossGraph(logits=logits)}
    known = replace(evidence(numbers, steps), forwards_per_step=forwards)
    return [*odd_losses(knowing(known, loss_graphs=graphs))]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (found_for(GUESS / CASES), "divided by the 64 cases twice"),
        (found_for(60.0), "is 2.75 of it at most"),
        (found_for(60.0, is_output=False), "is 2.75 of it at most"),
        (found_for(60.0, is_whole=False), "is 2.75 of it at most"),
        (found_for(-5.0, is_whole=False), "below 0"),
        (found_for(GUESS, gradient=100 * USUAL), "times the largest"),
    ],
    ids=["twice", "factor", "temperature", "penalty", "negative", "gradient"],
)
def test_what_logits_of_this_size_cannot_cost_is_told(found, words):
    (one,) = found
    assert (one.kind, one.severity, one.module) == ("odd_loss", "warning", "")
    assert words in one.text


@pytest.mark.parametrize(
    "found",
    [
        found_for(GUESS),
        found_for(0.01, rms=5.0),
        found_for(20.0, rms=9.0),
        found_for(GUESS / 4),
        found_for(GUESS / CASES, is_whole=False),
        found_for(5.0, is_whole=False),
        found_for(-1.0, is_whole=False),
        found_for(GUESS * CASES, is_mean=False),
        found_for(GUESS, gradient=3 * USUAL),
        found_for(GUESS, gradient=(2 / 16384 / CLASSES) ** 0.5, cases=16384),
        found_for(60.0, steps=range(100, 110)),
        found_for(60.0, calls=["head@1"]),
    ],
    ids=[
        "a guess",
        "sure and right",
        "sure and wrong",
        "an accumulation",
        "one term of it",
        "other terms",
        "a reward",
        "a sum",
        "few of the cases",
        "one of many cases",
        "later steps",
        "several calls",
    ],
)
def test_what_they_may_cost_is_none(found):
    assert found == []


def found_for_shares(loss, **others):
    logits = Logits("head", CASES, CLASSES, True, True, True)
    numbers = {("", "loss"): [loss] * 10, ("head", "OutputRMS"): [0.1] * 10}
    numbers |= {("head", "OutputAbsMax"): [0.4] * 10}
    graphs = {"loss": LossGraph(of_shares=logits)}
    return [*odd_losses(knowing(evidence(numbers, **others), loss_graphs=graphs))]


def test_shares_that_add_up_to_more_than_one_cost_too_much():
    (found,) = found_for_shares(2 * GUESS)
    assert (found.kind, found.severity, found.module) == ("odd_loss", "warning", "")
    assert "at most with targets that add up to 1 for each sample" in found.text
    assert "binary_cross_entropy_with_logits" in found.advice


def test_what_shares_may_cost_is_usual():
    assert found_for_shares(1.1 * GUESS) == []
    assert found_for_shares(2 * GUESS, steps=range(5, 15)) == []


@pytest.mark.parametrize(("forwards", "count"), [(1, 1), (4, 1), (64, 0)])
def test_a_loss_that_is_divided_by_the_forwards_of_a_step_is_none(forwards, count):
    assert len(found_for(GUESS / CASES, forwards=forwards)) == count


def test_the_term_that_costs_more_than_the_cross_entropy_can_is_named():
    parts = {"loss_of_classes": 2.3, "loss_of_boxes": 40.0, "loss_of_masks": 15.0}
    (found,) = found_for(60.0, is_whole=False, parts=parts)
    assert found.text.endswith("at most; 'loss_of_boxes' begins at 40")
    (found,) = found_for(60.0, is_whole=False, parts={"loss_of_classes": 2.3})
    assert found.text.endswith("at most")
