"""Losses that begin at a wild size."""

import numpy as np
import pytest

from taiyi_fx.findings import find
from taiyi_fx.findings.rules.losses.wild_losses import wild_losses
from tests.findings.given import evidence


@pytest.mark.parametrize(
    ("step_size", "severity"), [(0.01, "note"), (2.0, "alert")], ids=["usual", "large"]
)
def test_a_loss_that_begins_far_from_one_is_as_urgent_as_its_steps(step_size, severity):
    numbers = {("", "loss"): 1e9, ("a", "UpdateRatio.weight"): [step_size] + [0.001] * 39}
    numbers["a", "OutputRMS"] = 1.0
    (found,) = wild_losses(evidence(numbers))
    assert (found.kind, found.module, found.severity) == ("wild_loss", "", severity)


def test_a_usual_one_and_one_of_later_steps_are_none():
    assert [*wild_losses(evidence({("", "loss"): 900.0, ("a", "OutputRMS"): 1.0}))] == []
    numbers = {("", "loss"): [1e9] * 9, ("a", "OutputRMS"): [1.0] * 9}
    assert [*wild_losses(evidence(numbers, range(70, 79)))] == []


@pytest.mark.parametrize("sizes", [{}, {("b", "OutputRMS"): 1e4}], ids=["unknown", "wild"])
def test_one_that_is_of_wild_outputs_or_of_unknown_ones_is_none(sizes):
    assert [*wild_losses(evidence({("", "loss"): 1e9, **sizes}))] == []


def test_it_comes_before_the_large_steps_that_it_makes():
    numbers = {("", "loss"): 1e9, ("a", "OutputRMS"): 1.0}
    for module in "abc":
        numbers[module, "UpdateRatio.weight"] = [2.0] * 40
        numbers[module, "WeightNorm"] = 1.0
    assert [one.kind for one in find(evidence(numbers))][:2] == ["wild_loss", "large_steps"]


@pytest.mark.parametrize(("end", "severity"), [(9e8, "warning"), (1e7, "note")])
def test_one_that_steps_do_not_lower_is_a_warning(end, severity):
    numbers = {("", "loss"): np.linspace(1e9, end, 60), ("a", "OutputRMS"): 1.0}
    (found,) = wild_losses(evidence(numbers))
    assert found.severity == severity
