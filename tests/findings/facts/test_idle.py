"""Experts that got no token at some steps."""

import numpy as np
import pytest

from taiyi_fx.findings import find
from taiyi_fx.findings.facts.idle import at_work, idle_experts, without_steps_of_idle
from taiyi_fx.findings.rules.attention.routers import dead_experts
from taiyi_fx.findings.rules.optimizer.learning import zero_gradients
from tests.findings.given import evidence

N = 10
EXPERTS = 4
MOMENTUM = 1e-5


def mixture(idle=(), cut=(), n=N, router="mlp.router", load=None):
    """Four experts of two layers; those of `idle` get no token, those of `cut` no gradient."""
    share = np.full(n, len(idle) / EXPERTS) if load is None else load
    numbers = {("head", "WeightGradNorm"): np.full(n, 0.5)}
    numbers |= {("head", "UpdateRatio.weight"): np.full(n, 1e-2)}
    for i in range(EXPERTS):
        for layer in ("up", "down"):
            name, is_still = f"mlp.experts.{i}.{layer}", i in (*idle, *cut)
            numbers[name, "WeightGradNorm"] = np.full(n, 0.0 if is_still else 0.5)
            numbers[name, "UpdateRatio.weight"] = np.full(n, MOMENTUM if is_still else 1e-2)
    numbers[router, "DeadExperts"] = share
    return evidence(numbers, range(n))


def serious(known):
    return [(f.kind, f.module) for f in find(known, strict=True) if f.severity != "note"]


@pytest.mark.parametrize("router", ["mlp.router", "mlp"])
@pytest.mark.parametrize("n", [8, 10, 40])
def test_experts_without_a_token_are_no_finding_in_the_first_steps(router, n):
    known = mixture(idle=[1, 3], n=n, router=router)
    assert [*idle_experts(known)] == [
        f"mlp.experts.{i}.{x}" for i in (1, 3) for x in ("up", "down")
    ]
    assert serious(known) == []


def test_without_the_router_s_load_they_would_be_some():
    known = mixture(idle=[1])
    alone = known.with_series(s for s in known.series if s.quantity != "DeadExperts")
    assert ("zero_gradient", "mlp.experts.1.down") in serious(alone)


def test_an_expert_that_gets_tokens_and_no_gradient_is_an_alert():
    (found,) = zero_gradients(mixture(cut=[2]))
    assert (found.module, found.severity) == ("mlp.experts.2.down", "alert")
    assert "so is that of 'mlp.experts.2.up'" in found.text


def test_more_zeros_than_the_load_says_are_of_something_else():
    (found,) = zero_gradients(mixture(idle=[1], cut=[2]))
    assert found.module == "mlp.experts.2.down"


def test_steps_at_which_no_load_is_known_say_nothing():
    known = mixture(idle=[1], n=40)
    rare = known.with_series(
        s.at(s.steps % 4 == 0) if s.quantity == "DeadExperts" else s for s in known.series
    )
    assert serious(rare) == []


def test_an_idle_expert_takes_no_step_by_momentum():
    known = mixture(idle=[1], load=np.where(np.arange(N) < 5, 0.25, 0.0))
    stopped = {s.module: s for s in without_steps_of_idle(known).of_quantity("UpdateRatio.weight")}
    # That of a step is recorded at the next one.
    assert stopped["mlp.experts.1.up"].values.tolist() == [MOMENTUM] + 5 * [0] + 4 * [MOMENTUM]
    assert (stopped["mlp.experts.0.up"].values == 1e-2).all()


def test_a_series_at_work_has_the_other_steps():
    known = mixture(idle=[1], load=np.where(np.arange(N) < 5, 0.25, 0.0))
    idle = idle_experts(known)
    assert idle["mlp.experts.1.up"].tolist() == [0, 1, 2, 3, 4]
    assert at_work(known.parameters.weight_gradients["mlp.experts.1.up"], idle).steps.tolist() == [
        5,
        6,
        7,
        8,
        9,
    ]
    assert (
        at_work(known.parameters.weight_gradients["head"], idle)
        is known.parameters.weight_gradients["head"]
    )


def test_evidence_without_a_router_stays_as_it_is():
    known = evidence({("a", "WeightGradNorm"): 0.0, ("b", "WeightGradNorm"): 1.0})
    assert without_steps_of_idle(known) is known
    assert idle_experts(known) == {}


@pytest.mark.parametrize(("n", "count"), [(63, 0), (64, 1)])
def test_an_expert_that_no_token_ever_comes_to_is_a_warning(n, count):
    found = [*dead_experts(mixture(idle=[1], n=n))]
    assert [(f.kind, f.module, f.severity) for f in found] == count * [
        ("dead_experts", "mlp.experts.1", "warning")
    ]
    assert all("got no token in any of 64 steps" in f.text for f in found)
