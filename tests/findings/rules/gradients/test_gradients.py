"""Gradients that are not those that layers make."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings import LossGraph
from taiyi_fx.findings.rules.gradients.gradients import changed_gradients
from tests.findings.given import evidence, knowing

NAMES = [f"h.{i}" for i in range(5)]


def of(cosines=(), factors=(), all_cosines=1.0, all_factors=1.0):
    numbers = {(name, "WeightGradAgreement"): all_cosines for name in NAMES}
    numbers |= {(name, "WeightGradExcess"): all_factors for name in NAMES}
    numbers |= {(name, "WeightGradAgreement"): x for name, x in dict(cosines).items()}
    numbers |= {(name, "WeightGradExcess"): x for name, x in dict(factors).items()}
    return evidence(numbers)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (of({"h.2": -1.0}, {"h.2": 3.0}), "points against"),
        (of(factors={"h.2": 1e4}), "is 1e+04 times"),
        (of(factors={"h.2": 2e-3}, all_factors=2.0), "is 0.001 times"),
    ],
    ids=["sign", "size", "beside a factor of all"],
)
def test_one_that_is_turned_round_or_scaled_is_named(known, words):
    (found,) = changed_gradients(known)
    assert (found.kind, found.module, found.severity) == ("changed_gradient", "h.2", "alert")
    assert words in found.text


@pytest.mark.parametrize(
    "known",
    [of(), of(all_factors=0.25), of({"h.2": 0.3}), of({"h.2": float("nan")}, {"h.2": 0.0})],
    ids=["sound", "divided for all", "shared with another", "zero"],
)
def test_a_factor_of_all_and_a_weight_that_others_share_are_none(known):
    assert [*changed_gradients(known)] == []


def test_a_weight_that_the_loss_uses_in_several_ways_is_passed_over():
    """As all are where the loss has a derivative in it."""
    known = of({"h.2": -1.0})
    assert len([*changed_gradients(known)]) == 1
    graph = LossGraph(several_ways=frozenset(["h.2"]))
    assert [*changed_gradients(knowing(known, loss_graphs={"loss": graph}))] == []


@pytest.mark.parametrize(("ways", "count"), [(["h.0"], 1), (["h.0", "h.1", "h.3", "h.4"], 0)])
def test_where_most_are_used_by_a_derivative_all_are_passed_over(ways, count):
    """The layers' gradients are then those of the way to the derivative, too."""
    known = of({"h.2": -1.0})
    graph = LossGraph(several_ways=frozenset(ways))
    assert len([*changed_gradients(knowing(known, loss_graphs={"loss": graph}))]) == count


def test_the_gradients_of_a_closure_that_lbfgs_calls_again_are_passed_over():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    x = torch.linspace(-2, 2, 60).unsqueeze(1)

    def closure():
        optimizer.zero_grad()
        loss = (watched(x) - torch.sin(3 * x)).square().mean()
        loss.backward()
        return loss

    for step in range(20):
        watched.monitor.log("loss", optimizer.step(closure))
        watched.monitor.track(step)
    assert [found for found in watched.monitor.findings if found.severity != "note"] == []


@pytest.mark.parametrize(("count", "is_told"), [(1, True), (2, True), (3, False), (5, False)])
def test_where_most_gradients_are_not_their_layers_own_it_is_how_one_trains(count, is_told):
    names = NAMES[:count]
    numbers = {(name, "WeightNorm"): float(1 + i) for i, name in enumerate(NAMES)}
    numbers |= {(name, "WeightGradExcess"): 0.8 for name in NAMES}
    numbers |= {(name, "WeightGradAgreement"): 0.4 if name in names else 1.0 for name in NAMES}
    known = evidence(numbers)
    assert [found.module for found in changed_gradients(known)] == names * is_told


def test_a_weight_of_several_calls_is_passed_over():
    numbers = {(name, "WeightGradAgreement"): 1.0 for name in NAMES}
    for name in ("h.1", "h.2", "h.3"):
        for call in ("", "@1"):
            numbers[f"{name}{call}", "WeightGradAgreement"] = -1.0
            numbers[f"{name}{call}", "WeightGradExcess"] = 4.0
    numbers |= {("h.0", "WeightGradExcess"): 1.0, ("h.4", "WeightGradExcess"): 1.0}
    assert [*changed_gradients(evidence(numbers))] == []


@pytest.mark.parametrize("clears", [True, False])
def test_gradients_of_several_steps_are_a_finding_of_the_model(clears):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    model = taiyi_fx.instrument(model, {"Linear": ["WeightGradAgreement", "WeightGradExcess"]})
    for step in range(8):
        if clears:
            model.zero_grad()
        model(torch.randn(16, 4)).square().mean().backward()
        model.monitor.track(step)
    kinds = [(found.kind, found.module) for found in model.monitor.findings]
    assert kinds == ([] if clears else [("gradients_not_cleared", "")])


def test_of_one_weight_alone_the_first_gradient_tells_a_sum_from_a_change():
    cosines = [1.0, *(0.6 for _ in range(9))]
    numbers = {("head", "WeightGradAgreement"): cosines}
    (found,) = changed_gradients(
        evidence({**numbers, ("head", "WeightGradExcess"): [1.0, *(4.0 for _ in range(9))]})
    )
    assert (found.kind, found.module) == ("gradients_not_cleared", "")
    numbers["head", "WeightGradAgreement"] = 0.6
    kinds = [
        f.kind for f in changed_gradients(evidence({**numbers, ("head", "WeightGradExcess"): 4.0}))
    ]
    assert "gradients_not_cleared" not in kinds


PILED = {"WeightGradAgreement": [1.0, 0.8, 0.3, 0.2], "WeightGradExcess": [1.0, 4.8, 15.0, 19.0]}


def towers(numbers=PILED, right=("right.0", "right.1", "right.2")):
    every = {(f"left.{i}", name): 1.0 for i in range(3) for name in PILED}
    return evidence(every | {(module, q): x for module in right for q, x in numbers.items()})


@pytest.mark.parametrize("knows_groups", [True, False])
def test_the_half_whose_gradients_pile_up_is_named_and_not_the_other(knows_groups):
    known = towers()
    if knows_groups:
        groups = {m: (int(m.startswith("right")), 0.1) for m in known.modules}
        known = knowing(known, groups=groups)
    (found,) = changed_gradients(known)
    assert (found.kind, found.module, found.step) == ("gradients_not_cleared", "right.0", 1)
    assert "'right.0', 'right.1' and 'right.2' is the sum of all backwards" in found.text


def test_gradients_that_are_cleared_now_and_then_do_not_pile_up():
    again = {q: [*x, *x] for q, x in PILED.items()}
    kinds = {found.kind for found in changed_gradients(towers(again))}
    assert "gradients_not_cleared" not in kinds


def test_two_gradients_do_not_pile_up_yet():
    kinds = [f.kind for f in changed_gradients(towers({**PILED, "WeightGradExcess": [1.0, 1.1]}))]
    assert "gradients_not_cleared" not in kinds


def test_what_is_its_own_is_not_named_though_half_of_all_are_larger():
    known = towers({"WeightGradAgreement": 1.0, "WeightGradExcess": 9.0})
    assert {found.module for found in changed_gradients(known)} == {"right.0", "right.1", "right.2"}


def test_a_change_is_told_from_the_step_at_which_it_begins():
    numbers = {"WeightGradAgreement": 1.0, "WeightGradExcess": [1.0] * 10 + [9.0] * 30}
    (found,) = changed_gradients(towers(numbers, ["right.0"]))
    assert (found.module, found.step) == ("right.0", 10)


def test_a_head_that_no_optimizer_has_is_one_finding():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model.append(nn.Linear(8, 2))
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(40):
        optimizer.zero_grad()
        loss = watched(torch.randn(16, 4)).square().mean()
        loss.backward()
        watched.monitor.track(step)
        optimizer.step()
    found = watched.monitor.findings[0]
    assert (found.kind, found.module) == ("no_update", "4")
    assert {one.kind for one in found.consequences} == {"gradients_not_cleared"}


def test_the_first_gradient_of_a_branch_that_begins_at_nothing_says_nothing():
    (found,) = changed_gradients(of({"h.2": [float("nan"), -1.0, -1.0]}))
    assert found.module == "h.2"
    assert [*changed_gradients(of({"h.2": [float("nan"), float("nan"), -1.0]}))] == []


def partial_sums(n=8, cosine=0.4, size=0.3, name="loss"):
    known = of(all_cosines=cosine, all_factors=size)
    known = replace(known, series=(*known.series, *evidence({("", name): 1.0}).series))
    graph = LossGraph(is_of_one_forward=True)
    return knowing(known, forwards_per_step=n, loss_graphs={name: graph})


def test_gradients_that_are_cleared_between_micro_batches_are_told():
    (found,) = changed_gradients(partial_sums())
    assert (found.kind, found.severity, found.module) == ("cleared_between", "warning", "")
    assert "but a part of those that the 8 forwards of a step make" in found.text


@pytest.mark.parametrize(
    "known",
    [
        partial_sums(n=2),
        partial_sums(cosine=1.0, size=1.0),
        partial_sums(cosine=1.0, size=0.125),
        partial_sums(size=0.9),
        knowing(
            partial_sums(), loss_graphs={"loss": LossGraph(is_judging=True, is_of_one_forward=True)}
        ),
        knowing(partial_sums(), loss_graphs={"loss": LossGraph(copied="fc")}),
    ],
    ids=["few forwards", "whole", "divided", "as large", "a judge's", "of several forwards"],
)
def test_other_gradients_of_several_forwards_are_none(known):
    assert "cleared_between" not in {one.kind for one in changed_gradients(known)}


def test_where_no_loss_has_a_graph_gradients_that_are_cleared_between_are_told_all_the_same():
    known = knowing(partial_sums(cosine=0.95), loss_graphs={"loss": LossGraph()})
    assert [one.kind for one in changed_gradients(known)] == ["cleared_between"]


def test_a_zero_grad_within_the_loop_over_micro_batches_is_found():
    torch.manual_seed(0)
    layers = [layer for _ in range(3) for layer in (nn.Linear(8, 8), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(20):
        for _ in range(6):
            optimizer.zero_grad()
            x = torch.randn(8, 8)
            loss = nn.functional.cross_entropy(watched(x), x[:, :3].argmax(1))
            watched.monitor.log("loss", loss)
            loss.backward()
        watched.monitor.track(step)
        optimizer.step()
    assert "cleared_between" in {one.kind for one in watched.monitor.findings}


@pytest.mark.parametrize(("forwards", "is_told"), [(1, True), (2, False)])
def test_where_forwards_have_backwards_to_their_inputs_alone_no_weight_is_accused(
    forwards, is_told
):
    known = of(dict.fromkeys(NAMES[:3], 0.2) | {"h.3": -0.7})
    found = [*changed_gradients(knowing(known, forwards_per_step=forwards))]
    assert [one.module for one in found] == ["h.3"] * is_told
