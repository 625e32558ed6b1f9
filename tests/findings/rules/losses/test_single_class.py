"""Targets that are one class throughout."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx


def found_in(targets, loss_of=F.cross_entropy, model=None, steps=20):
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(model or nn.Linear(6, 3))
    for step in range(steps):
        loss = loss_of(watched(torch.randn(32, 6)), targets(step))
        watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.track(step)
    return [one for one in watched.monitor.findings if one.kind == "single_class"]


def zeros(step):
    return torch.zeros(32, dtype=torch.long)


def test_one_class_in_all_batches_is_told_with_it():
    (found,) = found_in(zeros)
    assert (found.severity, found.module) == ("warning", "")
    assert "all 96 targets of 'loss' in the 3 batches" in found.text
    assert "are of class 0, of 3" in found.text


def similarities(rows, _):
    """The first is that of each with its own other view, as in MoCo."""
    return F.cross_entropy(rows @ torch.randn(6, 5), zeros(0))


@pytest.mark.parametrize(
    "given",
    [
        {"targets": lambda step: torch.randint(3, (32,))},
        {"targets": lambda step: zeros(step) + (step > 1)},
        {"targets": zeros, "steps": 3},
        {"targets": zeros, "loss_of": similarities, "model": nn.Linear(6, 6)},
    ],
    ids=["drawn", "one each", "few", "similarities"],
)
def test_others_are_not(given):
    assert found_in(**given) == []
