"""Activations at their bounds."""

import numpy as np
from torch import nn

from taiyi_fx.findings import LayerSettings
from taiyi_fx.findings.facts.attributes import attributes_of
from taiyi_fx.findings.rules.values.saturation import saturated
from tests.findings.given import evidence, knowing


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
    (found,) = saturated(knowing(known, settings={"act": LayerSettings(kind="Tanh")}))
    assert found.module == "act"


def recurrent(largest, **more):
    known = evidence({("lstm", "OutputAbsMax"): largest}, **more)
    kinds = attributes_of({"lstm": nn.LSTM(2, 2)})
    return [*saturated(knowing(known, attributes=kinds))]


def test_a_recurrent_layer_that_begins_at_its_bound_is_named():
    (found,) = recurrent(1.0)
    assert (found.kind, found.module) == ("saturated", "lstm")
    assert "states" in found.advice


def test_one_that_comes_to_it_or_has_no_such_bound_is_none():
    for largest in (np.linspace(0.5, 1, 40), 1.7):
        assert recurrent(largest) == []
    assert recurrent(1.0, steps=range(100, 140)) == []


def test_a_later_call_of_a_layer_with_parameters_has_no_bound_either():
    numbers = {
        (name, quantity): 4.6
        for name in ("head", "head@1")
        for quantity in ("OutputRMS", "OutputAbsMax")
    }
    assert [*saturated(evidence(numbers))] != []
    assert [*saturated(evidence({**numbers, ("head", "WeightNorm"): 1.0}))] == []
