"""The optimizer's state: what it has forgotten or does not own, and moments too small for it."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings.rules.optimizer.state import (
    extra_steps,
    lost_moments,
    lost_states,
    shared_states,
    undecaying_moments,
)
from tests.findings.given import evidence, knowing

NAMES = ("a", "b", "c")


def of(counts, moves=0.01, steps=None):
    known = evidence({(name, "UpdateRatio.weight"): moves for name in NAMES}, steps)
    return [*lost_states(knowing(known, step_counts=dict(zip(NAMES, counts, strict=True))))]


def test_a_count_that_began_anew_is_the_optimizers_or_one_weights():
    (of_all,) = of((1, 1, 1))
    assert (of_all.kind, of_all.severity, of_all.module) == ("lost_state", "warning", "")
    assert "counts 1 step of the weights" in of_all.text
    (of_one,) = of((40, 3, 40))
    assert of_one.module == "b"


@pytest.mark.parametrize(
    ("counts", "moves"),
    [((40, 40, 40), 0.01), ((39, 30, 25), 0.01), ((4, 4, 4), np.arange(40) % 10 == 0)],
    ids=["all", "some skipped", "micro-batches"],
)
def test_counts_of_steps_that_were_taken_are_none(counts, moves):
    assert of(counts, moves) == []


def test_what_is_read_now_and_then_may_be_of_micro_batches():
    assert of((200, 200, 200), np.full(40, 0.01), range(0, 800, 20)) == []
    dense = [*range(10), *range(20, 620, 20)]
    assert of((100, 100, 100), np.full(40, 0.01), dense) != []


@pytest.mark.parametrize("is_made_anew", [True, False])
def test_an_optimizer_that_is_made_anew_at_each_step_is_told(is_made_anew):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    watched = taiyi_fx.instrument(model, {"Linear": ["UpdateRatio"]}, optimizer=optimizer)
    for step in range(20):
        watched(torch.randn(8, 4)).square().sum().backward()
        watched.monitor.track(step)
        if is_made_anew:
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        optimizer.step()
        optimizer.zero_grad()
    kinds = [found.kind for found in watched.monitor.findings]
    assert ("lost_state" in kinds) == is_made_anew


STEPS = np.arange(40)


def moments_of(moment, gradient=1e-3):
    site = "SecondMoment.weight", "WeightGradNorm"
    return evidence({("fc", site[0]): moment, ("fc", site[1]): gradient})


def test_a_moment_of_nothing_beside_a_gradient_is_named_from_the_step_on():
    (found,) = lost_moments(moments_of(np.where(STEPS < 5, 1e-6, 0.0)))
    assert (found.kind, found.severity, found.module) == ("lost_moment", "warning", "fc")
    assert (found.quantity, found.step) == ("SecondMoment.weight", 5)
    assert "second moment of 'weight' of 'fc' is exactly 0 from here on, though" in found.text


def test_other_parameters_are_looked_at_beside_their_own_gradient():
    numbers = {("fc", "SecondMoment.bias"): 0.0, ("fc", "ParameterGradNorm.bias"): 1e-3}
    (found,) = lost_moments(evidence(numbers))
    assert "second moment of 'bias' of 'fc'" in found.text


@pytest.mark.parametrize(
    "numbers",
    [
        (1e-12, 1e-3),
        (0.0, 0.0),  # no gradient
        (np.where(STEPS < 30, 0.0, 1e-6), 1e-3),  # not yet trained
        (0.0, np.where(STEPS % 2, 0.0, 1e-3)),  # of a gradient that comes and goes
    ],
)
def test_of_healthy_trainings_are_none(numbers):
    assert [*lost_moments(moments_of(*numbers))] == []


@pytest.mark.parametrize(
    ("dtype", "is_found"), [(torch.float16, True), (torch.bfloat16, False), (torch.float32, False)]
)
def test_adam_in_float16_is_found_in_a_training(dtype, is_found):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16)).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, eps=1e-4)
    cfg = [*taiyi_fx.preset("mlp"), {"Linear": [["SecondMoment", "every(1)", {"param": "weight"}]]}]
    watched = taiyi_fx.instrument(model, "mlp" if is_found else cfg, optimizer=optimizer)
    for step in range(24):
        x = torch.randn(256, 16, dtype=dtype)
        (0.05 * F.mse_loss(watched(x).float(), x.float())).backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    every = [one for found in watched.monitor.findings for one in (found, *found.consequences)]
    assert {one.module for one in every if one.kind == "lost_moment"} == (
        {"0", "2"} if is_found else set()
    )


def falling(to, known=("bfloat16", 0.999)):
    gradient = np.where(STEPS < 10, 1.0, to)
    numbers = {("fc", "WeightNorm"): 1.0, ("fc", "WeightGradNorm"): gradient}
    return knowing(evidence(numbers), undecaying_moments={"fc": known} if known else {})


def test_gradients_that_fell_beside_a_moment_that_cannot_are_a_note():
    (found,) = undecaying_moments(falling(0.1))
    assert (found.kind, found.severity, found.module) == ("undecaying_moment", "note", "")
    assert "a number times 0.999 is the number itself" in found.text
    assert "'fc' is 10 times as small as it was" in found.text


@pytest.mark.parametrize("given", [falling(0.8), falling(0.1, known=None), falling(0.0)])
def test_others_are_none(given):
    assert [*undecaying_moments(given)] == []


@pytest.mark.parametrize(
    ("dtype", "beta", "is_found"),
    [(torch.bfloat16, 0.999, True), (torch.bfloat16, 0.95, False), (torch.float32, 0.999, False)],
)
def test_adam_in_bfloat16_is_found_in_a_training(dtype, beta, is_found):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16)).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, beta))
    watched = taiyi_fx.instrument(model, "mlp", optimizer=optimizer)
    (weight, *_), moments = [*model.parameters()], []
    for step in range(80):
        x = torch.randn(256, 16, dtype=dtype)
        size = 1.0 if step < 16 else 0.1
        (size * F.mse_loss(watched(x).float(), x.float())).backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
        moments.append(optimizer.state[weight]["exp_avg_sq"].float().norm().item())
    assert (moments[-1] < 0.99 * max(moments)) != is_found  # it is what the finding says
    every = [one for found in watched.monitor.findings for one in (found, *found.consequences)]
    assert ("undecaying_moment" in {one.kind for one in every}) == is_found


def counted(counts, steps=None):
    known = evidence({(name, "UpdateRatio.weight"): 0.01 for name in NAMES}, steps)
    return [*extra_steps(knowing(known, step_counts=dict(zip(NAMES, counts, strict=True))))]


@pytest.mark.parametrize(("count", "times"), [(80, 2), (79, 2), (200, 5)])
def test_an_optimizer_that_steps_several_times_at_each_tracked_step_is_a_note(count, times):
    (found,) = counted((count,) * 3)
    assert (found.kind, found.severity, found.module) == ("extra_steps", "note", "")
    assert f"counts {count} steps where 40 were tracked, {times} at each" in found.text


@pytest.mark.parametrize(
    ("counts", "steps"),
    [((40, 40, 40), None), ((65, 65, 65), None), ((80, 40, 80), None), ((24, 24, 24), range(12))],
    ids=["one", "of a training that goes on", "of some", "few"],
)
def test_other_counts_are_no_more_than_were_tracked(counts, steps):
    assert counted(counts, steps) == []


def test_a_second_step_in_the_loop_is_found():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(24):
        F.cross_entropy(watched(torch.randn(8, 4)), torch.randint(2, (8,))).backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.step()
        optimizer.zero_grad()
    assert "extra_steps" in {one.kind for one in watched.monitor.findings}


class KeepsGradients(torch.optim.SGD):
    """Momentum by hand, which begins as the gradient."""

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            if "kept" in state:
                state["kept"].mul_(0.9).add_(parameter.grad)
            else:
                state["kept"] = parameter.grad
            parameter.sub_(state["kept"], alpha=0.01)


@pytest.mark.parametrize(("to_none", "told"), [(False, ["shared_state"]), (True, [])])
def test_a_state_that_is_the_gradient_is_told_where_gradients_are_cleared_by_zeros(to_none, told):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = KeepsGradients(model.parameters(), 0.01)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(20):
        optimizer.zero_grad(set_to_none=to_none)
        x = torch.randn(32, 8)
        loss = F.mse_loss(watched(x), x[:, :1])
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
        optimizer.step()
    found = watched.monitor.findings
    assert [one.kind for one in found if one.kind == "shared_state"] == told
    assert all(one.module == "" and "'kept' of '0'" in one.text for one in found[: len(told)])


def test_a_state_of_one_module_alone_names_it():
    known = evidence({(name, "WeightGradNorm"): 1.0 for name in NAMES})
    (found,) = shared_states(knowing(known, shared_state={"b": "kept"}))
    assert found.module == "b"
    assert [*shared_states(known)] == []
