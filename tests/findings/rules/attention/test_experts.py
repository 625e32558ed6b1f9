"""Routers that no longer share tokens out."""

import numpy as np
import pytest

from taiyi_fx.findings.rules.attention.experts import dead_experts, router_collapses
from tests.findings.given import evidence

STEPS = np.arange(40)


def of(entropy=2.0, dead=0.0):
    return evidence({("moe.gate", "RouterEntropy"): entropy, ("moe.gate", "DeadExperts"): dead})


@pytest.mark.parametrize("scale", [1.0, 1 / np.log(8)])  # in nats, and normalized
def test_a_load_of_half_the_entropy_is_a_collapse_from_its_step_on(scale):
    entropy = np.where(STEPS < 12, 2.0, 0.7) * scale
    (found,) = router_collapses(of(entropy, np.where(STEPS < 15, 0.0, 0.5)))
    assert (found.module, found.step, found.severity) == ("moe.gate", 12, "alert")
    assert "50% of them have none" in found.text
    assert [*dead_experts(of(entropy, np.where(STEPS < 15, 0.0, 0.5)))] == []


def test_a_router_that_was_dead_from_the_start_is_found_by_its_experts():
    (found,) = router_collapses(of(0.3, 0.75))
    assert (found.quantity, found.step) == ("DeadExperts", 0)


def test_dead_experts_are_told_from_the_step_on():
    (found,) = dead_experts(of(2.0, np.where(STEPS < 18, 0.0, 0.125)))
    assert (found.kind, found.step, found.severity) == ("dead_experts", 18, "warning")
    assert "12% of the experts of 'moe.gate' get no token from here on" in found.text


@pytest.mark.parametrize(
    ("entropy", "dead"),
    [
        (2.0, 0.0),
        (np.where(STEPS < 30, 2.0, 0.7), 0.0),  # not for long
        (np.where(STEPS % 2, 2.0, 0.7), np.where(STEPS % 2, 0.0, 0.125)),  # of some batches
        (1.5, np.where(STEPS < 18, 0.4, 0.55)),  # batches of fewer tokens than experts
        (0.0, 0.0),  # a single expert
        (np.linspace(2.0, 1.2, 40), 0.0),  # experts that specialise
    ],
)
def test_loads_of_healthy_routers_are_none(entropy, dead):
    assert [*router_collapses(of(entropy, dead)), *dead_experts(of(entropy, dead))] == []
