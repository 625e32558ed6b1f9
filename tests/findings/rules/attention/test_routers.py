"""Mixtures of experts whose routers do not share tokens out, and tokens that no expert takes."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings import find
from taiyi_fx.findings.rules.attention.routers import (
    dead_experts,
    dropped_tokens,
    router_collapses,
    unbalanced_routers,
)
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


MANY = np.arange(100)


def load_of(busiest, fair=0.25, **others):
    busiest = np.broadcast_to(busiest, MANY.shape)
    numbers = {"RouterLoad.busiest": busiest, "RouterLoad.imbalance": busiest / fair}
    return evidence({("moe.gate", name): values for name, values in {**numbers, **others}.items()})


def test_a_router_that_sends_most_tokens_to_one_expert_is_named_from_the_step_on():
    (found,) = unbalanced_routers(load_of(np.where(MANY < 15, 0.4, 0.8)))
    assert (found.module, found.kind, found.step) == ("moe.gate", "unbalanced_router", 15)
    assert found.severity == "warning"
    assert (
        "80% of all tokens come to one expert of 'moe.gate' from here on, 3.2 times" in found.text
    )


def test_one_that_collapsed_is_told_as_that_alone():
    entropy = np.where(MANY < 15, 2.0, 0.3)
    (found,) = find(load_of(np.where(MANY < 15, 0.4, 0.9), RouterEntropy=entropy))
    assert found.kind == "router_collapse"


def test_experts_that_die_of_it_are_beneath_it():
    dead = np.where(MANY < 18, 0.0, 0.25)
    (found,) = find(load_of(np.where(MANY < 15, 0.4, 0.8), DeadExperts=dead))
    assert found.kind == "unbalanced_router"
    assert [one.kind for one in found.consequences] == ["dead_experts"]


@pytest.mark.parametrize(
    ("busiest", "fair"),
    [
        (0.49, 0.25),  # of eight experts, two for each token
        (0.45, 0.0625),  # one that specialises in what most of the data are
        (np.where(MANY < 15, 0.95, 0.5), 0.25),  # uneven in the beginning
        (np.where(MANY % 2, 0.4, 0.9), 0.25),  # of some batches
        (1.0, 0.5),  # two experts, of which one gets all: that is a collapse
        (1.0, 1.0),  # a single expert
        (np.where(MANY < 40, 0.3, 0.9), 0.25),  # not for long
    ],
)
def test_shares_of_healthy_routers_are_none(busiest, fair):
    assert [*unbalanced_routers(load_of(busiest, fair))] == []


def test_the_first_steps_of_a_router_that_begins_unevenly_are_none():
    first = {"busiest": 0.95, "imbalance": 3.8, "dropped": 0.6}
    numbers = {("gate", f"RouterLoad.{name}"): np.full(50, x) for name, x in first.items()}
    found = evidence(numbers)
    assert [*unbalanced_routers(found), *dropped_tokens(found)] == []


@pytest.mark.parametrize(("share", "severity"), [(0.3, "note"), (0.6, "warning")])
def test_dropped_tokens_are_told(share, severity):
    numbers = {("moe", "RouterLoad.dropped"): np.where(MANY < 10, 0.0, share)}
    (found,) = dropped_tokens(evidence(numbers))
    assert (found.kind, found.severity, found.step) == ("dropped_tokens", severity, 10)
    assert f"drops {share:.0%} of all choices" in found.text


@pytest.mark.parametrize("share", [np.full(100, 0.1), np.where(MANY < 60, 0.6, 0.02)])
def test_a_few_of_them_and_those_of_the_beginning_are_none(share):
    assert [*dropped_tokens(evidence({("moe", "RouterLoad.dropped"): share}))] == []


class Mixture(nn.Module):
    """Eight experts, of which each token gets two."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 8, bias=False)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(8))
        self.top_k, self.balance = 2, torch.zeros(())

    def forward(self, x):
        shares = self.gate(x).softmax(-1)
        weights, chosen = shares.topk(2, dim=-1)
        load = F.one_hot(chosen, 8).float().sum(-2).flatten(0, -2).mean(0)
        self.balance = 8 * (load * shares.flatten(0, -2).mean(0)).sum()
        every = torch.stack([expert(x) for expert in self.experts], dim=-2)
        picked = every.gather(-2, chosen.unsqueeze(-1).expand(*chosen.shape, 16))
        return x + (weights.unsqueeze(-1) * picked).sum(-2)


@pytest.mark.parametrize(("weight", "is_found"), [(0.1, False), (-0.1, True)])
def test_a_balance_with_the_wrong_sign_is_found_in_a_training(weight, is_found):
    torch.manual_seed(0)
    model = nn.Sequential(Mixture(), nn.LayerNorm(16))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    watched = taiyi_fx.instrument(model, "experts", optimizer=optimizer)
    for step in range(100):
        x = torch.randn(8, 16, 16) + 1.0
        loss = F.mse_loss(watched(x), x.tanh() * 2)
        (loss + weight * model[0].balance).backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    kinds = {one.kind for one in watched.monitor.findings if one.module == "0.gate"}
    assert kinds == ({"unbalanced_router"} if is_found else set())
