"""The course of the loss."""

from dataclasses import replace

import numpy as np
import pytest

from taiyi_fx.findings import LossGraph
from taiyi_fx.findings.facts.logits import Logits
from taiyi_fx.findings.rules.losses.loss import divergence, plateau, spikes, squashed_twice
from tests.findings.given import evidence

NOISE = np.random.default_rng(0).normal(0, 0.05, 100)


def of(values):
    return evidence({("", "loss"): values})


def test_a_loss_that_rises_and_stays_is_an_alert_from_where_it_rose():
    (found,) = divergence(of(np.where(np.arange(100) < 40, 2.0, 30.0) + NOISE))
    assert (found.kind, found.severity, found.module) == ("divergence", "alert", "")
    assert 38 <= found.step <= 42


@pytest.mark.parametrize(
    "values",
    [
        2 - np.arange(100) / 60 + NOISE,
        np.where(np.arange(100) == 50, 30.0, 1.0) + NOISE,  # a spike that goes
        np.where((np.arange(100) > 20) & (np.arange(100) < 40), 30.0, 1.0) + NOISE,  # comes back
        -1 - np.arange(100) / 10,
        [2.0, 90.0],
    ],
    ids=["falls", "spike", "comes back", "negative", "short"],
)
def test_other_losses_do_not_diverge(values):
    assert [*divergence(of(values))] == []


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


FALLS = 2 * np.exp(-np.arange(100) / 50) + NOISE / 10


@pytest.mark.parametrize(
    ("is_high", "height", "severity"),
    [
        (np.arange(100) == 70, 4.5, "note"),
        (np.arange(100) == 70, 60.0, "warning"),
        (np.arange(100) >= 70, 6.0, "warning"),
    ],
    ids=["once", "once, and huge", "and stays"],
)
def test_a_spike_is_told_with_its_step_and_size(is_high, height, severity):
    (found,) = spikes(of(np.where(is_high, height, FALLS)))
    assert (found.kind, found.severity, found.step) == ("loss_spike", severity, 70)
    assert f"jumps to {height:.3g}" in found.text


def test_what_moved_before_a_spike_is_named():
    size = np.exp(np.random.default_rng(1).normal(0, 0.1, 100))
    numbers = {("", "loss"): np.where(np.arange(100) >= 70, 6.0, FALLS)}
    numbers["h.1", "UpdateRatio.weight"] = np.where(np.arange(100) >= 68, 50 * size, size)
    (found,) = spikes(evidence(numbers))
    assert "; UpdateRatio.weight of 'h.1' (step 68) moved first" in found.text


@pytest.mark.parametrize(
    "values",
    [
        FALLS,
        np.where(np.arange(100) == 20, 60.0, FALLS),
        np.where(np.arange(100) == 70, 1.0, FALLS),
    ],
    ids=["none", "with too few before", "a little"],
)
def test_other_losses_have_no_spike(values):
    assert [*spikes(of(values))] == []


RANDOM = np.random.default_rng(0).normal(size=200)
TEN = np.log(10)


def of_ten(values):
    return replace(of(values), classes={"loss": 10})


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
    known = replace(of(np.full(120, 1.6)), batch_axes={"a": 0, "rnn": 1})
    (found,) = plateau(replace(known, shape_before=lambda module: "32×20×16"))
    assert "; 'rnn', without batch_first, takes the first axis" in found.text
    (found,) = plateau(replace(known, shape_before=lambda module: ""))
    assert "batch_first" not in found.text


def test_a_jump_of_a_loss_that_has_fallen_to_nearly_nothing_is_a_note():
    values = np.where(np.arange(100) == 90, 0.1, np.exp(-np.arange(100) / 3) + 0.01 + NOISE / 1e3)
    (found,) = spikes(of(values))
    assert (found.severity, found.step) == ("note", 90)
    (found,) = spikes(of(np.where(np.arange(100) == 90, 0.8, values)))
    assert found.severity == "warning"


def test_a_loss_without_noise_that_comes_down_to_that_of_a_guess_is_a_plateau():
    (found,) = plateau(of_ten(2.3026 + 0.2 * np.exp(-np.arange(120) / 8)))
    assert found.severity == "warning"


def test_a_spike_above_where_the_loss_began_is_a_warning():
    values = 2 + 3 * np.exp(-np.arange(80) / 3) + 0.1 * np.sin(np.arange(80))
    values[60] = 6.0
    (found,) = spikes(evidence({("", "loss"): values}))
    assert (found.step, found.severity) == (60, "warning")
    values[60] = 4.0
    assert [one.severity for one in spikes(evidence({("", "loss"): values}))] == ["note"]


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
    (found,) = plateau(replace(evidence(numbers), classes={"loss": 10}))
    assert found.severity == severity
    assert ("2.0% of their size" in found.text) == (severity == "note")


def test_a_spike_at_the_latest_batch_alone_is_a_note():
    """As where the last batch of an epoch is a single sample."""
    values = 0.7 + 1.6 * np.exp(-np.arange(120) / 10) + 0.1 * np.sin(np.arange(120))
    numbers = {("", "loss"): np.append(values, 3.2)}
    assert [one.severity for one in spikes(evidence(numbers))] == ["note"]
    numbers = {("", "loss"): np.append(values, [3.2, 0.7])}
    assert [one.severity for one in spikes(evidence(numbers))] == ["warning"]


@pytest.mark.parametrize(("length", "severity"), [(1, "note"), (3, "warning")])
def test_jumps_that_come_again_and_again_are_how_batches_vary(length, severity):
    """As of hard samples in small batches; unless each lasts."""
    values = 0.1 * np.exp(0.3 * np.random.default_rng(0).normal(size=400))
    values[:20] += 2.3
    for i in range(60, 400, 20):
        values[i : i + length] = 3.0
    (found,) = spikes(of(values))
    assert found.severity == severity


@pytest.mark.parametrize(("names", "is_told"), [(("loss_d", "loss_g"), False), (("loss",), True)])
def test_the_losses_of_players_may_rise(names, is_told):
    """As that of a DCGAN's generator, while its judge learns."""
    rises = np.where(np.arange(100) < 40, 0.8, 3.0) + NOISE
    known = evidence({("", name): rises for name in names})
    assert bool([*divergence(known)]) == is_told
    assert ("warning" in [one.severity for one in spikes(known)]) == is_told


@pytest.mark.parametrize(
    ("total", "is_told"),
    [
        (np.linspace(40, 20, 100), False),
        (np.linspace(40, 80, 100), True),
        (np.linspace(0.02, 0.01, 100), True),
    ],
    ids=["falls", "rises", "is smaller"],
)
def test_a_part_of_a_loss_that_falls_may_rise(total, is_told):
    """As the divergence of a VAE's code from its prior, which begins at nothing."""
    rises = np.where(np.arange(100) < 40, 0.8, 3.0) + NOISE
    known = evidence({("", "loss"): total, ("", "kl_loss"): rises})
    assert ("kl_loss" in [one.quantity for one in divergence(known)]) == is_told
    told = [one.severity for one in spikes(known) if one.quantity == "kl_loss"]
    assert ("warning" in told) == is_told


def test_what_is_called_the_loss_is_no_part_of_another():
    rises = np.where(np.arange(100) < 40, 0.8, 3.0) + NOISE
    known = evidence({("", "loss"): rises, ("", "kl_loss"): np.linspace(40, 20, 100)})
    assert [one.quantity for one in divergence(known)] == ["loss"]


@pytest.mark.parametrize(("level", "severity"), [(2 * np.log(2), "note"), (1.2, "warning")])
def test_a_judge_that_cannot_tell_two_batches_apart_is_a_note(level, severity):
    known = replace(of(level + NOISE / 10), classes={"loss": 2}, loss_graphs={"loss": LossGraph()})
    assert [one.severity for one in plateau(known)] == [severity]


@pytest.mark.parametrize(("is_judged", "severity"), [(True, "warning"), (False, "alert")])
def test_a_loss_that_another_model_judges_may_rise_with_that(is_judged, severity):
    known = of(np.where(np.arange(100) < 40, 2.0, 30.0) + NOISE)
    known = replace(known, loss_graphs={"loss": LossGraph(is_judged=is_judged)})
    (found,) = divergence(known)
    assert found.severity == severity
    assert ("another model judges it" in found.text) == is_judged


def test_an_overlap_of_logits_is_an_alert():
    (found,) = squashed_twice(
        replace(of([1.0]), loss_graphs={"loss": LossGraph(overlaps=("out",))})
    )
    assert (found.kind, found.module, found.severity) == ("unsquashed_loss", "out", "alert")
    assert "a ratio of sums, as Dice's overlap is, of what 'out' returns as it is" in found.text


@pytest.mark.parametrize(("share", "is_told"), [(1e-4, True), (0.3, False)])
def test_logits_that_are_the_same_for_all_samples_are_told_with_a_plateau(share, is_told):
    numbers = {("", "loss"): 2.3 + NOISE / 10, ("out", "OutputVariation"): np.full(100, share)}
    logits = Logits("out", 64, 10, is_output=True, is_mean=True, is_whole=True)
    graphs = {"loss": LossGraph(logits=logits)}
    known = replace(evidence(numbers), classes={"loss": 10}, loss_graphs=graphs)
    (found,) = plateau(known)
    assert ("what 'out' returns differs from sample to sample by 1.0%" in found.text) == is_told
