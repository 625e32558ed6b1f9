"""Groups of the optimizer whose rate is odd."""

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings.rules.optimizer.rates import in_group, odd_rates
from tests.findings.given import evidence, knowing

NAMES = ["words", "h.0.up", "h.0.down", "h.1.up", "h.1.down", "head"]


def known(ratio, rate, own=("h.1.up", "h.1.down"), usual=1e-3):
    numbers = {(name, "UpdateRatio.weight"): ratio if name in own else usual for name in NAMES}
    numbers |= {(name, "WeightNorm"): 1.0 for name in NAMES}
    groups = {name: (1, rate) if name in own else (0, 0.01) for name in NAMES}
    return knowing(evidence(numbers), groups=groups)


@pytest.mark.parametrize(
    ("ratio", "rate", "severity"),
    [
        (0.1, 1.0, "alert"),
        (np.where(np.arange(40) < 8, 0.1, 1e-3), 1.0, "alert"),
        (1e-6, 1e-5, "warning"),
        (1e-5, 1e-5, "warning"),
    ],
    ids=["large", "large at first", "small", "far smaller"],
)
def test_a_block_whose_rate_and_steps_are_odd_is_named_with_its_group(ratio, rate, severity):
    (found,) = odd_rates(known(ratio, rate))
    assert (found.kind, found.module, found.severity) == ("odd_rate", "h.1", severity)
    assert f"group 1 of the optimizer, with 'h.1', has a learning rate of {rate:.3g}" in found.text


@pytest.mark.parametrize(
    ("ratio", "rate", "own"),
    [
        (0.1, 0.02, ("head",)),
        (2e-3, 1.0, ("head",)),
        (1e-5, 1e-4, tuple(NAMES[:5])),
        (0.0, 1.0, ("head",)),
    ],
    ids=["a rate that is near", "usual steps", "a backbone", "no steps"],
)
def test_usual_steps_and_a_slow_backbone_are_none(ratio, rate, own):
    assert [*odd_rates(known(ratio, rate, own))] == []


def test_rates_that_are_equal_are_none_though_steps_differ():
    of = known(1e-6, 0.0)
    of = knowing(
        of, groups={name: (group, 0.0) for name, (group, _) in of.optimizer.groups.items()}
    )
    assert [*odd_rates(of)] == []  # as behind the end of a schedule


@pytest.mark.parametrize("of_own", [True, False])
@pytest.mark.parametrize("size", [0.0, 1e-7, 0.1])
def test_a_group_that_waits_with_a_rate_of_0_is_none_and_makes_none_of_others(of_own, size):
    of = known(size, 0.0) if of_own else known(0.1, 0.5, usual=size)
    rates = {0: 0.01, 1: 0.0} if of_own else {0: 0.0, 1: 0.5}
    of = knowing(
        of, groups={name: (group, rates[group]) for name, (group, _) in of.optimizer.groups.items()}
    )
    assert [*odd_rates(of)] == []


def test_steps_of_unknown_size_are_not_compared():
    assert [*odd_rates(known(0.1, 1.0, usual=0.0))] == []


def test_other_findings_say_the_group_where_rates_differ():
    of = known(1e-3, 0.5)
    assert in_group("h.1", of).endswith("group 1 of the optimizer, whose learning rate is 0.5")
    assert in_group("h", of) == ""
    assert in_group("h.1", known(1e-3, 0.01)) == ""


def test_a_monitor_knows_the_groups_of_its_optimizer():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4)))
    groups = [{"params": [*model[:3].parameters()]}, {"params": model[3].parameters(), "lr": 2.0}]
    optimizer = torch.optim.SGD(groups, lr=0.01)
    watched = taiyi_fx.instrument(
        model, {"Linear": ["WeightNorm", "UpdateRatio"]}, optimizer=optimizer
    )
    for step in range(20):
        watched(torch.randn(16, 8)).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    found = watched.monitor.findings[0]
    assert (found.kind, found.module, found.value) == ("odd_rate", "3", 2.0)
