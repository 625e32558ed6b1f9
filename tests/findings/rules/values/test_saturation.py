"""Activations at their bounds."""

from dataclasses import replace

import numpy as np

from taiyi_fx.findings import LayerSettings
from taiyi_fx.findings.rules.values.saturation import saturated
from tests.findings.given import evidence


def of(size, largest=1.0, **more):
    return evidence({("act", "OutputRMS"): size, ("act", "OutputAbsMax"): largest, **more})


def test_an_activation_at_its_bound_is_named_from_the_step_on():
    (found,) = saturated(of(np.where(np.arange(40) < 12, 0.6, 0.99)))
    assert (found.module, found.step) == ("act", 12)


def test_usual_sizes_and_largest_numbers_that_change_are_none():
    assert [*saturated(of(0.8))] == []
    assert [*saturated(of(0.99, np.linspace(1, 1.01, 40)))] == []
    assert [*saturated(of(0.0, 0.0))] == []


def test_a_layer_with_parameters_has_no_bound():
    numbers = {("fc", "OutputRMS"): 1.0, ("fc", "OutputAbsMax"): 1.0, ("fc", "WeightNorm"): 1.0}
    assert [*saturated(evidence(numbers))] == []


def test_of_a_tanh_a_lower_size_is_near_its_bound():
    known = of(0.93)
    assert [*saturated(known)] == []
    (found,) = saturated(replace(known, settings={"act": LayerSettings(kind="Tanh")}))
    assert found.module == "act"
