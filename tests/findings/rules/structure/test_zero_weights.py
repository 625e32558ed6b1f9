"""Frozen weights of exactly zero."""

import numpy as np
import pytest

from taiyi_fx.findings.rules.structure.zero_weights import zero_weights
from tests.findings.given import evidence


def block(**changed):
    numbers = {}
    for module, gradient in (("a", 1.0), ("b", 0.0), ("c", 0.0), ("norm", None), ("end", 1.0)):
        numbers[module, "OutputRMS"] = 1.0
        numbers[module, "WeightNorm"] = 0.0 if module == "norm" else 2.0
        if gradient is not None:
            numbers[module, "WeightGradNorm"] = gradient
    return evidence(numbers | {("norm", name): values for name, values in changed.items()})


def test_one_that_cuts_off_what_lies_before_it_is_named_with_that():
    (found,) = zero_weights(block())
    assert (found.kind, found.module, found.severity) == ("zero_weight", "norm", "alert")
    assert "'b' and 'c' before it get no gradient" in found.text


def test_one_whose_output_is_zero_is_named_though_nothing_before_it_learns():
    numbers = {("norm", "OutputRMS"): 0.0, ("norm", "WeightNorm"): 0.0}
    assert [found.module for found in zero_weights(evidence(numbers))] == ["norm"]


@pytest.mark.parametrize(
    "changed",
    [
        {"WeightGradNorm": 1.0},
        {"WeightNorm": np.where(np.arange(40) < 1, 0.0, 0.1)},
        {"WeightNorm": [0.0] * 3},
        {"WeightNorm": 2.0},
    ],
    ids=["learns", "leaves zero", "few steps", "is frozen alone"],
)
def test_one_that_learns_or_is_not_zero_is_none(changed):
    assert [*zero_weights(block(**changed))] == []


def test_a_weight_of_zero_that_cuts_off_nothing_is_none():
    numbers = {("a", "OutputRMS"): 1.0, ("a", "WeightNorm"): 2.0, ("a", "WeightGradNorm"): 1.0}
    numbers |= {("b", "OutputRMS"): 1.0, ("b", "WeightNorm"): 0.0}
    assert [*zero_weights(evidence(numbers))] == []


def test_one_that_has_a_gradient_of_zero_alone_stays_and_is_named():
    numbers = {("a", "OutputRMS"): 0.0, ("a", "WeightNorm"): 0.0, ("a", "WeightGradNorm"): 0.0}
    assert [found.module for found in zero_weights(evidence(numbers))] == ["a"]
