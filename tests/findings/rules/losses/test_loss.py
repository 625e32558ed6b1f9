"""The course of the loss."""

import numpy as np
import pytest

from taiyi_fx.findings import LossGraph, Regression, Targets
from taiyi_fx.findings.rules.losses.loss import divergence, spikes
from tests.findings.given import evidence, knowing

NOISE = np.random.default_rng(0).normal(0, 0.05, 100)
FALLS = 2 * np.exp(-np.arange(100) / 50) + NOISE / 10


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


@pytest.mark.parametrize(("apart", "is_told"), [(20, True), (0, False)])
def test_spikes_at_equal_distances_say_how_far_apart_they_are(apart, is_told):
    rng, values = np.random.default_rng(1), np.abs(NOISE[np.arange(400) % 100]) / 10 + 0.1
    at = np.arange(40, 400, apart) if apart else rng.choice(np.arange(40, 400), 18, replace=False)
    for i in at:
        values[i : i + 3] += 0.5
    (found,) = spikes(of(values))
    assert ("mostly from each 20th step on" in found.text) == is_told
    assert ("every 20 steps" in found.advice) == is_told


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


def test_a_jump_of_a_loss_that_has_fallen_to_nearly_nothing_is_a_note():
    values = np.where(np.arange(100) == 90, 0.1, np.exp(-np.arange(100) / 3) + 0.01 + NOISE / 1e3)
    (found,) = spikes(of(values))
    assert (found.severity, found.step) == ("note", 90)
    (found,) = spikes(of(np.where(np.arange(100) == 90, 0.8, values)))
    assert found.severity == "warning"


@pytest.mark.parametrize(("cases", "severity"), [(8, "note"), (64, "warning")])
def test_a_jump_that_a_single_sample_may_make_is_a_note(cases, severity):
    values = np.where(np.arange(100) == 90, 0.8, np.exp(-np.arange(100) / 3) + 0.01 + NOISE / 1e3)
    known = knowing(of(values), targets={"loss": [Targets(cases, False, 0, 9)]})
    assert [one.severity for one in spikes(known)] == [severity]


@pytest.mark.parametrize(("cases", "severity"), [(32, "note"), (64, "warning")])
@pytest.mark.parametrize("is_back", [True, False])
def test_one_that_a_few_samples_may_make_is_a_note_if_it_is_over_at_once(cases, severity, is_back):
    values = np.exp(-np.arange(100) / 3) + 0.01 + NOISE / 1e3
    values[90 : 91 if is_back else 92] = 0.8
    known = knowing(of(values), targets={"loss": [Targets(cases, False, 0, 9)]})
    assert [one.severity for one in spikes(known)] == [severity if is_back else "warning"]


def test_a_spike_of_a_policy_is_a_note():
    values = np.where(np.arange(100) == 70, 60.0, FALLS)
    known = knowing(of(values), loss_graphs={"loss": LossGraph(odd_ratios=0.0)})
    assert [one.severity for one in spikes(known)] == ["note"]


def test_a_spike_above_where_the_loss_began_is_a_warning():
    values = 2 + 3 * np.exp(-np.arange(80) / 3) + 0.1 * np.sin(np.arange(80))
    values[60] = 6.0
    (found,) = spikes(evidence({("", "loss"): values}))
    assert (found.step, found.severity) == (60, "warning")
    values[60] = 4.0
    assert [one.severity for one in spikes(evidence({("", "loss"): values}))] == ["note"]
    values[60] = 3.1  # some ten deviations
    assert [*spikes(evidence({("", "loss"): values}))] == []


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


@pytest.mark.parametrize(("is_judged", "severity"), [(True, "warning"), (False, "alert")])
def test_a_loss_that_another_model_judges_may_rise_with_that(is_judged, severity):
    known = of(np.where(np.arange(100) < 40, 2.0, 30.0) + NOISE)
    known = knowing(known, loss_graphs={"loss": LossGraph(is_judged=is_judged)})
    (found,) = divergence(known)
    assert found.severity == severity
    assert ("another model judges it" in found.text) == is_judged


@pytest.mark.parametrize(
    ("name", "is_judged", "severity"),
    [
        ("loss of the generator", False, "note"),
        ("my loss", True, "note"),
        ("loss", False, "warning"),
    ],
)
def test_a_jump_of_a_player_s_only_loss_is_a_note(name, is_judged, severity):
    high = np.where(np.arange(100) == 70, 30.0, FALLS)
    graphs = {name: LossGraph(is_judged=is_judged)}
    (found,) = spikes(knowing(evidence({("", name): high}), loss_graphs=graphs))
    assert found.severity == severity


@pytest.mark.parametrize(("costs", "severity"), [([1.0, 1.2], "warning"), ([1.0, 9.0], "note")])
def test_a_jump_of_an_error_of_targets_that_grow_is_a_note(costs, severity):
    """As of returns, which grow as the model learns to earn them."""
    values = 2 + 3 * np.exp(-np.arange(80) / 3) + 0.1 * np.sin(np.arange(80))
    values[60] = 6.0
    regressions = [Regression(64, cost, 1.0, 0.0, 1.0) for cost in costs]
    known = knowing(evidence({("", "loss"): values}), regressions={"loss": regressions})
    assert [one.severity for one in spikes(known)] == [severity]


def test_jumps_that_are_common_and_below_where_the_loss_began_are_none():
    rng = np.random.default_rng(0)
    usual = 0.001 * rng.lognormal(size=400)
    # A batch with a rare reward costs thirty times as much, and one such seldom comes alone.
    values = np.where(rng.random(400) < 0.1, 0.03, usual)
    values[:3] = 0.05
    assert [*spikes(evidence({("", "loss"): values.tolist()}, range(400)))] == []
    values[300] = 0.5  # above where it began: that is no usual batch
    assert [one.step for one in spikes(evidence({("", "loss"): values.tolist()}, range(400)))] == [
        300
    ]
