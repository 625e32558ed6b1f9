"""Terms of a loss without a gradient."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings import LossGraph
from taiyi_fx.findings.facts.ways import Terms
from taiyi_fx.findings.rules.losses.constant_terms import constant_terms
from tests.findings.given import evidence, knowing

RNG = np.random.default_rng(0)
PART, TERM = RNG.uniform(0.5, 1, (2, 40)).astype(np.float32)
TRAINED, CONSTANT = LossGraph(has_gradient=True, terms=Terms(1)), LossGraph()
SUM = LossGraph(has_gradient=True, terms=Terms(1, has_constant=True))
OF_TWO = LossGraph(has_gradient=True, terms=Terms(2, has_constant=True))


def found_for(whole, term=TERM, **graphs):
    known = evidence({("", "loss"): whole, ("", "bce_loss"): PART, ("", "dice_loss"): term})
    graphs = {"loss": SUM, "bce_loss": TRAINED, "dice_loss": CONSTANT, **graphs}
    return [*constant_terms(knowing(known, loss_graphs=graphs))]


@pytest.mark.parametrize(("factor", "times"), [(1.0, ""), (0.1, "0.1 times "), (-2.0, "-2 times ")])
def test_a_term_without_a_gradient_is_told_with_its_factor(factor, times):
    (found,) = found_for(PART + factor * TERM)
    assert (found.kind, found.severity, found.module) == ("constant_term", "warning", "")
    assert f"'loss' is 'bce_loss' and {times}'dice_loss' at all steps" in found.text


@pytest.mark.parametrize(
    ("whole", "more"),
    [
        (PART + TERM, {"loss": TRAINED}),
        (PART + TERM, {"loss": OF_TWO}),
        (PART + TERM, {"dice_loss": TRAINED}),
        (PART + TERM, {"bce_loss": CONSTANT}),
        (PART + TERM**2, {}),
        (PART, {}),
        (PART + 0.3, {"term": np.full(40, 0.3)}),
    ],
    ids=[
        "detached to be logged",
        "a sum from 0 on",
        "trained",
        "unknown",
        "no sum",
        "no part",
        "a constant",
    ],
)
def test_others_are_not(whole, more):
    assert found_for(whole, **more) == []


@pytest.mark.parametrize("logs", [lambda x: x, torch.Tensor.detach], ids=["as it is", "detached"])
@pytest.mark.parametrize("is_constant", [True, False])
def test_a_dice_loss_of_what_is_compared_is_told_in_a_training(is_constant, logs):
    torch.manual_seed(0)
    model = nn.Linear(6, 4)
    watched = taiyi_fx.instrument(model)
    for step in range(20):
        x = torch.randn(32, 6)
        logits, target = watched(x), (x[:, :4] > 0).float()
        shares = (logits.sigmoid() > 0.5).float() if is_constant else logits.sigmoid()
        bce = F.binary_cross_entropy_with_logits(logits, target)
        dice = 1 - 2 * (shares * target).sum() / (shares.sum() + target.sum())
        loss = sum([bce, 0.5 * dice])  # which begins with 0
        for name, value in (("loss", loss), ("bce_loss", bce), ("dice_loss", logs(dice))):
            watched.monitor.log(name, value)
        loss.backward()
        watched.monitor.track(step)
        model.zero_grad()
    assert ("constant_term" in [x.kind for x in watched.monitor.findings]) == is_constant
