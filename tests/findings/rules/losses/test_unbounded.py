"""Losses that fall without end."""

import numpy as np
import pytest

from taiyi_fx.findings import LossGraph, Targets
from taiyi_fx.findings.facts.logits import Logits
from taiyi_fx.findings.rules.losses.unbounded import unbounded_losses
from tests.findings.given import evidence, knowing

STEPS = np.arange(80)
FALLING = 0.3 - 0.5 * STEPS**2.0


def test_a_loss_that_falls_below_zero_without_end_is_an_alert_with_what_grows():
    numbers = {("", "loss"): FALLING, ("a", "OutputRMS"): 0.1 + STEPS}
    numbers["b", "OutputRMS"] = 1.0
    (found,) = unbounded_losses(evidence(numbers))
    assert (found.kind, found.module, found.severity) == ("unbounded_loss", "", "alert")
    assert (found.step, found.value) == (5, FALLING[-1])
    assert "it grows what 'a' returns, by a factor of 791" in found.text


@pytest.mark.parametrize(
    "values",
    [
        3 - 0.1 * STEPS,
        -1e4 * (1 - np.exp(-STEPS / 5)),
        np.abs(FALLING),
        2000 * np.exp(-STEPS / 20),
        FALLING[:30],
        np.where(STEPS < 70, FALLING, np.nan),
    ],
    ids=["likelihood", "settles", "rises", "positive", "short", "ends"],
)
def test_one_that_settles_or_stays_small_is_none(values):
    assert [*unbounded_losses(evidence({("", "loss"): values}))] == []


def test_a_cross_entropy_that_begins_at_minus_a_guess_and_falls_has_the_wrong_sign():
    known = knowing(evidence({("", "loss"): -1.6 - np.arange(20) / 5}), classes={"loss": 5})
    (found,) = unbounded_losses(known)
    assert (found.kind, found.severity, found.step) == ("unbounded_loss", "alert", 0)
    assert "a guess among 5 classes costs with a minus" in found.text


@pytest.mark.parametrize(
    ("values", "classes"),
    [(-1.6 - np.arange(20) / 5, 0), (-1.6 - np.arange(20) / 50, 5), (0.1 - np.arange(20) / 5, 5)],
    ids=["no classes", "stays", "begins elsewhere"],
)
def test_other_losses_below_zero_have_their_sign(values, classes):
    known = knowing(evidence({("", "loss"): values}), classes={"loss": classes})
    assert [*unbounded_losses(known)] == []


NEGATED = -0.69 - np.arange(20) / 10


@pytest.mark.parametrize(("others", "count"), [([], 1), (["loss"], 2), (["loss_d"], 0)])
def test_yes_or_no_of_one_of_two_players_may_have_a_minus(others, count):
    names = ["loss_g", *others]
    classes = dict.fromkeys(names, 2)
    known = evidence({("", name): NEGATED for name in names})
    assert len([*unbounded_losses(knowing(known, classes=classes))]) == count


@pytest.mark.parametrize(("classes", "count"), [(2, 0), (5, 1)])
def test_yes_or_no_of_another_model_may_have_a_minus(classes, count):
    values = -np.log(classes) - np.arange(20) / 5
    known = knowing(evidence({("", "loss"): values}), classes={"loss": classes})
    judged = knowing(known, loss_graphs={"loss": LossGraph(is_judged=True)})
    assert len([*unbounded_losses(judged)]) == count
    assert len([*unbounded_losses(known)]) == 1


def of_logits(values, *, is_whole=True):
    graph = LossGraph(logits=Logits("head", 8, 2, True, True, is_whole))
    return knowing(evidence({("", "loss"): values}), loss_graphs={"loss": graph})


def test_a_cross_entropy_that_falls_below_zero_is_one_of_other_targets():
    (found,) = unbounded_losses(of_logits(0.7 - 0.1 * STEPS[:20]))
    assert (found.step, found.severity, found.module) == (8, "alert", "")
    assert "targets of 0 and 1" in found.advice


@pytest.mark.parametrize(
    "known",
    [
        of_logits(np.maximum(0.7 - 0.1 * STEPS, 0.0)),
        of_logits(0.7 - 0.1 * STEPS[:20], is_whole=False),
        of_logits(np.full(20, 1e-4) * np.cos(STEPS[:20])),
    ],
    ids=["above", "with other terms", "rounded"],
)
def test_a_cross_entropy_near_zero_or_beside_other_terms_is_none(known):
    assert [*unbounded_losses(known)] == []


def of_divergence(values, *, is_divergence=True):
    graphs = {"loss": LossGraph(is_divergence=is_divergence)}
    return [*unbounded_losses(knowing(evidence({("", "loss"): values}), loss_graphs=graphs))]


def test_a_divergence_below_zero_is_one_of_other_shares():
    (found,) = of_divergence([0.3, 0.1, -0.1, -0.2])
    assert (found.kind, found.severity, found.step) == ("unbounded_loss", "warning", 2)
    assert "a divergence, and falls to -0.1, below 0" in found.text
    assert "softmax" in found.advice
    assert len(of_divergence([-0.1, -0.2])) == 1


def test_a_divergence_near_zero_and_other_losses_below_it_are_none():
    assert of_divergence([0.3, 0.0, -1e-4]) == []
    assert of_divergence([0.3, -0.1], is_divergence=False) == []


@pytest.mark.parametrize(
    ("least", "most", "is_of_two", "is_told"),
    [
        (0.0, 255.0, True, True),
        (-1.0, 1.0, True, True),
        (0.0, 1.0, True, False),
        (0.1, 0.9, True, False),
        (0, 9, False, False),
    ],
    ids=["a mask", "signs", "yes and no", "shares", "classes"],
)
def test_targets_that_are_no_shares_are_told_at_the_first_step(least, most, is_of_two, is_told):
    known = evidence({("", "loss"): [0.7]})
    known = knowing(known, targets={"loss": [Targets(32, is_of_two, least, most)]})
    found = [*unbounded_losses(known)]
    assert [one.kind for one in found] == ["unbounded_loss"] * is_told
    assert all(f"between {least:.3g} and {most:.3g}" in one.text for one in found)


def test_a_loss_that_crosses_zero_late_and_then_falls_without_end_is_told():
    values = np.where(STEPS < 60, 5.0 - STEPS / 20, -(1.5 ** (STEPS - 40.0)))
    (found,) = unbounded_losses(evidence({("", "loss"): values}))
    assert (found.kind, found.severity) == ("unbounded_loss", "alert")


def test_one_that_jumps_back_at_many_steps_is_told_too():
    """As of boxes of negative sizes, whose overlap is a ratio of anything."""
    falling = np.where(STEPS % 3, -5.0, FALLING)
    (found,) = unbounded_losses(evidence({("", "loss"): falling}))
    assert found.value == falling.min()
