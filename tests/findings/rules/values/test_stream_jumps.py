"""Residual streams that grow by more than is added to them."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings.rules.values.stream_jumps import stream_jumps
from tests.findings.given import evidence, knowing

PARTS = ("norm", "up", "down")


def of(*given, branch=0.5):
    numbers = {}
    for i, size in enumerate(given):
        for part in PARTS:
            numbers[f"h.{i}.{part}", "OutputRMS"] = 1.0 if part == "norm" else branch
            numbers[f"h.{i}.{part}", "InputRMS"] = size if part == "norm" else 1.0
            n = 8 if part == "norm" else 64
            numbers[f"h.{i}.{part}", "ParameterRMS.weight"] = 1.0 if part == "norm" else 0.1
            numbers[f"h.{i}.{part}", "WeightNorm"] = n**0.5 * (1.0 if part == "norm" else 0.1)
    return evidence(numbers)


def test_what_grows_by_more_than_its_parts_is_named_with_what_makes_it():
    known = knowing(of(1.0, 1.4, 40.0, 40.5), before_module=lambda _: ["add", "mul"])
    (found,) = stream_jumps(known)
    assert (found.kind, found.module, found.severity) == ("stream_jump", "h.2.norm", "warning")
    assert "is 40" in found.text
    assert "add up to 2.4 at most" in found.text
    assert found.text.endswith("the operations `add` and `mul` between them make it")


def test_one_that_the_training_makes_up_for_is_named_too():
    (found,) = stream_jumps(of(1.0, np.where(np.arange(40) < 3, 40.0, 1.0), 1.2))
    assert (found.module, found.step) == ("h.1.norm", 0)


@pytest.mark.parametrize(
    "known",
    [
        of(1.0, 1.4, 1.8, 2.2),
        of(1.0, 30.0, 31.0, branch=40.0),
        of(1.0, np.where(np.arange(40) == 9, 40.0, 1.0)),
        of(0.0, 0.0),
    ],
    ids=["sum", "large branch", "one batch", "nothing"],
)
def test_sums_are_none(known):
    assert [*stream_jumps(known)] == []


def test_one_that_jumps_at_the_end_is_named_from_then_on():
    (found,) = stream_jumps(of(1.0, np.where(np.arange(40) < 30, 1.0, 40.0)))
    assert (found.module, found.step) == ("h.1.norm", 30)


def test_one_that_is_given_more_than_the_sum_that_all_others_are_given_is_named():
    (found,) = stream_jumps(added_to(of(1.0, 1.4, 2.9, 3.2, 3.4), "down"))
    assert (found.module, found.step) == ("h.2.norm", 0)
    assert "is given and what 'h.1.down' returns add up to 1.9 at most" in found.text


def added_to(known, *parts):
    """What is added to the stream before each norm, all before it counted, as an outline knows."""

    def before(module, modules):
        i = int(module.split(".")[1])
        return {f"h.{j}.{part}" for j in range(i) for part in parts}

    return knowing(known, modules_before=before)


@pytest.mark.parametrize("parts", [("up", "down"), ()], ids=["another is added", "not known"])
def test_what_is_within_all_that_is_added_is_none(parts):
    """Of all modules that may make it, as where the last of them ran before the norm's branch."""
    known = of(1.0, 1.4, 2.9, 3.2, 3.4, branch=0.6)
    assert [*stream_jumps(added_to(known, *parts))] == []
    assert [*stream_jumps(added_to(known, "down"))] != []


class Branches(nn.Module):
    """A block whose shortcut is computed between its two norms, and is not what the second gets."""

    def __init__(self, size):
        super().__init__()
        self.norm, self.second = nn.LayerNorm(16), nn.LayerNorm(16)
        self.up, self.down, self.shortcut = (nn.Linear(16, 16) for _ in range(3))
        with torch.no_grad():
            self.up.weight.mul_(size)

    def forward(self, x):
        h = self.up(F.silu(self.norm(x)))
        return self.shortcut(x) + self.down(F.silu(self.second(h)))


def test_a_shortcut_that_runs_before_a_norm_is_not_taken_for_what_the_norm_is_given():
    torch.manual_seed(0)
    blocks = [Branches(5.0 if i == 3 else 1.0) for i in range(5)]
    model = nn.Sequential(nn.Linear(8, 16), *blocks, nn.Linear(16, 8))
    watched = taiyi_fx.instrument(model)
    for step in range(12):
        x = torch.randn(64, 8)
        F.mse_loss(watched(x), x).backward()
        watched.monitor.track(step)
    assert "stream_jump" not in [found.kind for found in watched.monitor.findings]


@pytest.mark.parametrize(
    "sizes", [(1.0, 1.4, 2.9, 4.9, 5.0), (1.0, 1.4, 2.9, 3.2), (1.0, 1.9, 2.4, 3.0, 3.9)]
)
def test_streams_that_are_weighed_in_more_than_one_place_are_none(sizes):
    assert [*stream_jumps(of(*sizes))] == []
