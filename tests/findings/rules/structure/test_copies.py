"""Weights that begin as copies and part."""

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings.rules.structure.copies import parted_copies
from tests.findings.given import evidence

MOVES = 7.31 + np.arange(40) / 100


def of(**weights):
    numbers = {(name, "WeightNorm"): weight for name, weight in weights.items()}
    numbers |= {(name, "InputRMS"): 1.0 for name in weights if name != "words"}
    numbers |= {(name, "ParameterRMS.weight"): 0.02 for name in weights}
    return evidence(numbers)


def test_an_embedding_and_a_head_that_begin_as_one_and_part_are_a_note():
    (found,) = parted_copies(of(words=MOVES, up=5.0, head=MOVES + 0.1 * (MOVES - 7.31)))
    assert (found.module, found.severity) == ("head", "note")


@pytest.mark.parametrize(
    "weights",
    [
        {"words": MOVES, "head": MOVES},  # tied, under two names
        {"words": MOVES, "head": 1.001 * MOVES},
        {"up": MOVES, "copy": MOVES[::-1]},
        {"words": MOVES - 0.31, "head": 2 * MOVES - 7.62},  # 7 at first, as of 49 ones
    ],
)
def test_tied_weights_and_those_of_their_own_are_none(weights):
    assert [*parted_copies(of(**weights))] == []


@pytest.mark.parametrize("is_tied", [True, False])
def test_a_model_whose_weights_were_untied_is_told(is_tied):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(10, 6), nn.Linear(6, 6), nn.Linear(6, 10, bias=False))
    model[2].weight = model[0].weight if is_tied else nn.Parameter(model[0].weight.detach().clone())
    optimizer = torch.optim.Adam(model.parameters())
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(4):
        x = torch.randint(10, (8,))
        nn.functional.cross_entropy(watched(x), x).backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    assert ("parted_copies" in [one.kind for one in watched.monitor.findings]) is not is_tied
