"""Advantages that get a gradient."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

from taiyi_fx.findings import owners_of
from taiyi_fx.findings.facts.advantages import trained_advantages
from taiyi_fx.findings.facts.autograd import Uses

NET = nn.ModuleDict({"policy": nn.Linear(6, 4), "critic": nn.Linear(6, 1)})
X, ACTIONS, RETURNS = torch.randn(32, 6), torch.randint(4, (32,)), torch.randn(32)


def logits():
    return NET["policy"](X)


def values():
    return NET["critic"](X).squeeze(-1)


def chosen():
    return logits().log_softmax(1).gather(1, ACTIONS[:, None]).squeeze(1)


def normalised(advantage):
    return (advantage - advantage.mean()) / (advantage.std() + 1e-8)


TRAINED = {
    "by a distribution": lambda: (
        -(Categorical(logits=logits()).log_prob(ACTIONS) * (RETURNS - values())).mean()
    ),
    "of shares": lambda: (
        -(Categorical(logits().softmax(1)).log_prob(ACTIONS) * (RETURNS - values())).mean()
    ),
    "gathered": lambda: (-chosen() * (RETURNS - values())).sum(),
    "by an index": lambda: (
        (values() - RETURNS) * F.log_softmax(logits(), 1)[range(32), ACTIONS]
    ).mean(),
    "normalised": lambda: -(chosen() * normalised(RETURNS - values())).mean(),
}
OTHERS = {
    "detached": lambda: -(chosen() * (RETURNS - values()).detach()).mean(),
    "an error beside": lambda: -(chosen() * RETURNS).mean() + (RETURNS - values()).square().mean(),
    "an entropy": lambda: -(logits().softmax(1) * logits().log_softmax(1)).sum(1).mean(),
    "weights": lambda: -(chosen() * values().sigmoid()).mean(),
    "a cross entropy": lambda: F.cross_entropy(logits(), ACTIONS),
}


@pytest.mark.parametrize("made", TRAINED.values(), ids=TRAINED)
def test_values_that_weigh_probabilities_with_a_gradient_are_found(made):
    assert [*trained_advantages(Uses.of(made(), owners_of({**NET})))] == ["critic"]


@pytest.mark.parametrize("made", OTHERS.values(), ids=OTHERS)
def test_others_are_not(made):
    assert [*trained_advantages(Uses.of(made(), owners_of({**NET})))] == []
