"""What the model is given."""

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings.rules.values.inputs import drifting_inputs, wild_inputs
from tests.findings.given import evidence


@pytest.mark.parametrize(
    ("size", "severity"),
    [
        (300.0, "warning"),
        (5e-4, "warning"),
        (2e-3, "warning"),
        (1e4, "alert"),
        (1e-6, "alert"),
        (0.0, "alert"),
    ],
)
def test_data_of_a_wild_scale_are_a_finding(size, severity):
    numbers = {("a", "InputRMS"): size, ("b", "InputRMS"): 1.0}
    (found,) = wild_inputs(evidence(numbers))
    assert (found.module, found.severity) == ("a", severity)


def test_usual_data_and_other_modules_are_none():
    assert [*wild_inputs(evidence({("a", "InputRMS"): 16.0, ("b", "InputRMS"): 1e4}))] == []
    assert [*wild_inputs(evidence({("a", "OutputRMS"): 1e4}))] == []


def test_data_that_leave_their_scale_are_one_at_the_end():
    (found,) = wild_inputs(evidence({("a", "InputRMS"): np.geomspace(1, 1e6, 40)}))
    assert found.value > 1e5
    assert found.step == 14  # the first that is beyond 100
    assert "is 2.94e+05 at last, and 3.51 at first" in found.text
    assert found.advice.startswith("It began at a usual size")
    (other,) = wild_inputs(evidence({("a", "InputRMS"): 1e6}))
    assert other.text.endswith("is 1e+06")
    assert other.advice.startswith("Normalize")


def test_one_batch_that_is_far_larger_is_named_with_its_step():
    (found,) = wild_inputs(evidence({("a", "InputRMS"): np.where(np.arange(40) == 25, 80.0, 1.0)}))
    assert (found.kind, found.severity, found.step) == ("input_spike", "warning", 25)
    assert [
        *wild_inputs(evidence({("a", "InputRMS"): np.where(np.arange(40) == 25, 9.0, 1.0)}))
    ] == []


@pytest.mark.parametrize(("first", "last"), [(1.0, 2.1), (2.0, 0.9)])
def test_data_whose_size_drifts_are_a_note(first, last):
    sizes = np.linspace(first, last, 40) * (1 + 0.05 * np.cos(np.arange(40)))
    (found,) = drifting_inputs(evidence({("a.0", "InputRMS"): sizes, ("b", "InputRMS"): 1.0}))
    assert (found.kind, found.module, found.severity) == ("input_drift", "a.0", "note")
    assert ("grows" if last > first else "shrinks") in found.text


@pytest.mark.parametrize(
    "numbers",
    [
        {("a", "InputRMS"): 1 + 0.5 * np.cos(np.arange(40))},
        {("a", "InputRMS"): np.where(np.arange(40) < 20, 1.0, 2.0)},
        {("a", "InputRMS"): np.linspace(1, 1.2, 40)},
        {("a", "InputRMS"): [1.0, 2.0, 3.0]},
        {("words", "OutputRMS"): 1.0, ("a", "InputRMS"): np.linspace(1, 3, 40)},
    ],
    ids=["varies", "another data set", "a little", "too short", "made by another module"],
)
def test_data_that_stay_are_none(numbers):
    assert [*drifting_inputs(evidence(numbers))] == []


def test_what_another_module_makes_is_no_input_of_the_model():
    numbers = {("words", "OutputRMS"): 1.0, ("lstm", "InputRMS"): 700.0}
    assert [*wild_inputs(evidence(numbers))] == []


class Tabular(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.net = nn.Embedding(5, 4), nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 1))

    def forward(self, num, cat):
        return self.net(torch.cat([num, self.emb(cat)], 1))


@pytest.mark.parametrize(("factor", "modules"), [(1e9, ["net.0"]), (1.0, [])])
def test_an_input_that_is_joined_with_embeddings_is_told(factor, modules):
    torch.manual_seed(0)
    model = taiyi_fx.instrument(Tabular())
    for step in range(10):
        model(factor * torch.rand(16, 2), torch.randint(5, (16,))).square().mean().backward()
        model.monitor.track(step)
    found = [one for one in model.monitor.findings if one.kind == "wild_input"]
    assert [one.module for one in found] == modules
    assert all(one.severity == "alert" and "input 'num'" in one.text for one in found)
