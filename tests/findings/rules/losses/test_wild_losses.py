"""Losses that begin at a wild size, by their targets or by the outputs of the model."""

import numpy as np
import pytest

from taiyi_fx.findings import find
from taiyi_fx.findings.rules.losses.wild_losses import wild_losses, wild_starts
from tests.findings.given import evidence, knowing

FALLS = 50 * np.exp(-np.arange(40) / 5) + 2


def of(size=9.0, before=1.0, loss=FALLS):
    return evidence(
        {("h", "OutputRMS"): before, ("head", "OutputRMS"): size, ("", "loss"): np.array(loss)}
    )


def test_a_head_of_large_first_outputs_is_named_with_the_loss_that_they_make():
    (found,) = wild_starts(of())
    assert (found.kind, found.module, found.severity) == ("wild_start", "head", "warning")
    assert "begins at 9 in size, and 'loss' at 52" in found.text


@pytest.mark.parametrize(
    "changed",
    [{"size": 3.0}, {"before": 4.0}, {"loss": FALLS / 10}, {"loss": np.full(40, 50.0)}],
    ids=["usual", "made before it", "a guess", "of another size"],
)
def test_usual_outputs_and_losses_of_another_size_are_none(changed):
    assert [*wild_starts(of(**changed))] == []


def test_with_few_classes_a_wild_start_begins_lower():
    known = knowing(of(loss=FALLS / 8), classes={"loss": 5})
    (found,) = wild_starts(known)
    assert "a guess among 5 classes costs 1.61" in found.text
    assert [*wild_starts(knowing(of(loss=FALLS / 14), classes={"loss": 5}))] == []


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
