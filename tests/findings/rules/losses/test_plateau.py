"""Losses that do not fall."""

import numpy as np
import pytest

from taiyi_fx.findings import LossGraph
from taiyi_fx.findings.facts.logits import Logits
from taiyi_fx.findings.facts.regression import Regression
from taiyi_fx.findings.rules.losses.plateau import plateau
from tests.findings.given import evidence, knowing

NOISE = np.random.default_rng(0).normal(0, 0.05, 100)
RANDOM = np.random.default_rng(0).normal(size=200)
TEN = np.log(10)


def of(values):
    return evidence({("", "loss"): values})


def of_ten(values):
    return knowing(of(values), classes={"loss": 10})


@pytest.mark.parametrize(
    ("loss", "severity", "module"),
    [
        (2.3 + NOISE, "warning", "layers.0"),
        ((2.3 + NOISE)[:60], "note", "layers.0"),
        (2.3 + 20 * NOISE, "note", "layers.0"),
        (2.3 + NOISE, "note", "discriminator.0"),
    ],
    ids=["flat", "not long", "too noisy to tell", "a game of two"],
)
def test_a_loss_that_stays_where_it_began_is_told(loss, severity, module):
    (found,) = plateau(evidence({("", "loss"): loss, (module, "OutputRMS"): 1.0}))
    assert (found.kind, found.severity) == ("plateau", severity)


@pytest.mark.parametrize(
    "values", [2.3 - np.arange(100) / 200 + NOISE, (2.3 + NOISE)[:30]], ids=["falls", "short"]
)
def test_a_loss_that_falls_or_has_no_course_yet_is_none(values):
    assert [*plateau(of(values))] == []


def test_a_loss_that_falls_less_than_it_varies_is_said_to_do_so():
    values = np.linspace(1.1, 1.0, 60) + np.where(np.arange(60) % 2, 0.3, -0.3)
    (found,) = plateau(of(values))
    assert "does not fall beyond how it varies" in found.text
    (found,) = plateau(of((2.3 + NOISE)[:60]))
    assert "does not fall: it is" in found.text


@pytest.mark.parametrize(
    ("steps", "words", "others"),
    [
        ({}, ["far too small", "missing from"], ["too large"]),
        ({"a": 1e-5, "b": 1e-5}, ["far too small"], ["too large", "missing from"]),
        ({"a": 2e-3, "b": 3e-3}, [], ["far too small", "too large", "missing from"]),
        ({"a": 0.02, "b": 0.04}, ["too large"], ["far too small", "missing from"]),
        ({"a": 0.02, "b": 0.0}, ["too large", "missing from"], ["far too small"]),
    ],
    ids=["unknown", "small", "usual", "large", "one stays"],
)
def test_reasons_that_the_steps_of_weights_exclude_are_left_out(steps, words, others):
    numbers = {(name, "UpdateRatio.weight"): [size] * 100 for name, size in steps.items()}
    (found,) = plateau(evidence({("", "loss"): 2.3 + NOISE} | numbers))
    assert found.advice.startswith("Inputs and targets may not belong together")
    assert all(word in found.advice for word in words)
    assert not any(word in found.advice for word in others)
    assert "it is 2.28 in the last 20 of its 100 numbers (their median)" in found.text


@pytest.mark.parametrize(
    ("values", "severity"),
    [
        (TEN + 0.5 * np.exp(-np.arange(200) / 5) + 0.02 * RANDOM, "warning"),
        (1.02 * TEN + 0.2 * np.exp(-np.arange(200) / 5) + 0.02 * RANDOM, "warning"),
        (TEN + 0.5 * np.exp(-np.arange(60) / 5) + 0.02 * RANDOM[:60], "note"),
        (TEN + 0.001 * RANDOM, "warning"),
    ],
)
def test_a_loss_that_comes_down_to_that_of_a_guess_and_stays_is_a_plateau(values, severity):
    (found,) = plateau(of_ten(values))
    assert (found.kind, found.severity) == ("plateau", severity)
    assert "a guess among 10 classes costs 2.3" in found.text


@pytest.mark.parametrize(
    "values",
    [
        TEN * (1.2 - 0.2 * np.arange(200) / 200),  # still on its way
        TEN + 0.5 * np.exp(-np.arange(200) / 10) - 0.0008 * np.arange(200) + 0.01 * RANDOM,
        0.9 * TEN + 0.5 * np.exp(-np.arange(200) / 10),
        np.where(np.arange(200) < 170, TEN, 1.0) + 0.5 * np.exp(-np.arange(200) / 10),
    ],
)
def test_a_loss_that_passes_that_of_a_guess_is_none(values):
    assert [*plateau(of_ten(values))] == []


def test_a_plateau_names_the_layer_that_takes_its_first_axis_for_time():
    known = knowing(of(np.full(120, 1.6)), batch_axes={"a": 0, "rnn": 1})
    (found,) = plateau(knowing(known, shape_before=lambda module: "32×20×16"))
    assert "; 'rnn', without batch_first, takes the first axis" in found.text
    (found,) = plateau(knowing(known, shape_before=lambda module: ""))
    assert "batch_first" not in found.text


def test_a_loss_without_noise_that_comes_down_to_that_of_a_guess_is_a_plateau():
    (found,) = plateau(of_ten(2.3026 + 0.2 * np.exp(-np.arange(120) / 8)))
    assert found.severity == "warning"


@pytest.mark.parametrize(("end", "is_told"), [(0.98, True), (0.95, False)])
def test_a_loss_that_begins_at_a_guess_has_to_fall_well_below_it(end, is_told):
    found = [*plateau(of_ten(TEN * np.linspace(1.01, end, 200)))]
    assert bool(found) == is_told


def test_a_loss_that_falls_slowly_to_the_end_is_a_note():
    slow = of_ten(TEN * (1.01 - 0.03 * np.arange(200) / 200) + 0.01 * RANDOM)
    assert [one.severity for one in plateau(slow)] == ["note"]
    ended = of_ten(TEN + 0.07 * np.exp(-np.arange(200) / 10) + 0.01 * RANDOM)
    assert [one.severity for one in plateau(ended)] == ["warning"]


@pytest.mark.parametrize(("ratio", "severity"), [(1e-4, "note"), (4e-4, "warning")])
def test_a_loss_has_to_fall_once_weights_have_moved(ratio, severity):
    """By RAdam's first steps, or in a warm-up, they move by a percent."""
    numbers = {("", "loss"): TEN + 0.01 * RANDOM}
    numbers |= {(f"h.{i}", "UpdateRatio.weight"): np.full(200, ratio) for i in range(3)}
    (found,) = plateau(knowing(evidence(numbers), classes={"loss": 10}))
    assert found.severity == severity
    assert ("2.0% of their size" in found.text) == (severity == "note")


@pytest.mark.parametrize(("level", "severity"), [(2 * np.log(2), "note"), (1.2, "warning")])
def test_a_judge_that_cannot_tell_two_batches_apart_is_a_note(level, severity):
    known = knowing(of(level + NOISE / 10), classes={"loss": 2}, loss_graphs={"loss": LossGraph()})
    assert [one.severity for one in plateau(known)] == [severity]


@pytest.mark.parametrize(("share", "is_told"), [(1e-4, True), (0.3, False)])
def test_logits_that_are_the_same_for_all_samples_are_told_with_a_plateau(share, is_told):
    numbers = {("", "loss"): 2.3 + NOISE / 10, ("out", "OutputVariation"): np.full(100, share)}
    logits = Logits("out", 64, 10, is_output=True, is_mean=True, is_whole=True)
    graphs = {"loss": LossGraph(logits=logits)}
    known = knowing(evidence(numbers), classes={"loss": 10}, loss_graphs=graphs)
    (found,) = plateau(known)
    assert ("what 'out' returns differs from sample to sample by 1.0%" in found.text) == is_told


@pytest.mark.parametrize(
    ("start", "severity"), [(1.0, "warning"), (1.5, "warning")], ids=["at it", "comes to it"]
)
def test_an_error_that_comes_to_that_of_the_mean_of_the_targets_is_a_plateau(start, severity):
    values = 1 + (start - 1) * np.exp(-np.arange(200) / 5) + 0.05 * RANDOM
    known = {"loss": [Regression(256, 1.02, 1.0, 0.0, 0.1)] * 4}
    (found,) = plateau(knowing(evidence({("", "loss"): values}), regressions=known))
    assert found.severity == severity
    assert "the mean of the targets, as the same answer for every sample, costs 1.02" in found.text


@pytest.mark.parametrize(
    ("deviation", "mean", "is_told"), [(1.02, 0.01, True), (1.4, 0.01, False), (1.0, 0.5, False)]
)
def test_targets_that_look_like_noise_are_to_be_that_of_the_input(deviation, mean, is_told):
    known = {"loss": [Regression(2560, 1.02, deviation, mean, 0.1)] * 4}
    values = 1 + 0.05 * RANDOM
    (found,) = plateau(knowing(evidence({("", "loss"): values}), regressions=known))
    assert ("no other draw" in found.advice) == is_told


@pytest.mark.parametrize(
    ("name", "is_told"),
    [
        ("train/loss", True),
        ("loss_train", True),
        ("mse loss", True),
        ("loss of the generator", False),
        ("loss_d", False),
    ],
)
def test_the_only_loss_has_to_fall_unless_it_is_a_player_s(name, is_told):
    found = [*plateau(evidence({("", name): 2.3 + NOISE}))]
    assert bool(found) == is_told
