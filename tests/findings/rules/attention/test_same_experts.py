"""Experts that stay the same, and routers that the task does not teach."""

import numpy as np
import pytest

from taiyi_fx.findings import LossGraph
from taiyi_fx.findings.rules.attention.same_experts import same_weights, untaught_routers
from tests.findings.given import evidence, knowing

MOVES = 1 + np.arange(40) / 100
EXPERTS = [f"mlp.experts.{i}.up" for i in range(4)]


def experts(weights, gradients):
    numbers = {(name, "WeightNorm"): x for name, x in zip(EXPERTS, weights, strict=True)}
    numbers |= {(name, "WeightGradNorm"): x for name, x in zip(EXPERTS, gradients, strict=True)}
    return evidence(numbers)


def test_weights_that_stay_the_same_by_other_gradients_are_named():
    (found,) = same_weights(experts([MOVES] * 4, [0.1, 0.2, 0.3, 0.4]))
    assert (found.module, found.severity) == ("mlp.experts", "alert")
    assert "are the same at all steps" in found.text


@pytest.mark.parametrize(
    "known",
    [
        experts([MOVES, MOVES + 1e-9, MOVES + 2e-9, MOVES - 1e-9], [0.1, 0.2, 0.3, 0.4]),
        experts([MOVES] * 4, [0.1] * 4),
        experts([1.0] * 4, [0.1, 0.2, 0.3, 0.4]),
        experts([MOVES, MOVES, MOVES + 1, MOVES + 2], [0.1, 0.2, 0.3, 0.4]),
    ],
    ids=["parting", "one weight", "still", "two"],
)
def test_weights_that_part_are_shared_or_stay_still_are_none(known):
    assert [*same_weights(known)] == []


def routed(reached, gradient=0.1):
    numbers = {("mlp.router", "RouterEntropy"): 1.0, ("", "loss"): 2.0}
    numbers |= {(name, "WeightNorm"): MOVES for name in ("mlp.router.linear", *EXPERTS)}
    numbers |= {("mlp.router.linear", "WeightGradNorm"): gradient}
    graph = LossGraph(reached=frozenset(reached))
    return knowing(evidence(numbers), loss_graphs={"loss": graph})


def test_a_router_that_the_loss_does_not_depend_on_is_named():
    (found,) = untaught_routers(routed(EXPERTS))
    assert (found.module, found.severity) == ("mlp.router", "warning")
    assert "without detach" in found.advice


@pytest.mark.parametrize(
    "known",
    [routed(["mlp.router.linear", *EXPERTS]), routed([]), routed(EXPERTS, gradient=0.0)],
    ids=["taught", "unknown", "without a gradient"],
)
def test_routers_that_are_taught_or_of_which_nothing_is_known_are_none(known):
    assert [*untaught_routers(known)] == []
