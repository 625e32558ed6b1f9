"""Modules of which nearly all is in trouble."""

import numpy as np
import pytest

from taiyi_fx.findings.rules.values.shares import shares_of_trouble
from tests.findings.given import evidence, knowing


def test_a_dead_module_is_named_with_the_step_from_which_it_is():
    values = np.where(np.arange(40) < 12, 0.4, 1.0)
    (found,) = shares_of_trouble(evidence({("act", "DeadNeuronRatio"): values}))
    assert (found.module, found.step, found.severity) == ("act", 12, "alert")


def test_one_that_is_far_worse_than_its_siblings_is_a_warning():
    numbers = {(f"h.{i}.act", "DeadNeuronRatio"): 0.1 for i in range(4)}
    numbers["h.2.act", "DeadNeuronRatio"] = 0.7
    (found,) = shares_of_trouble(evidence(numbers))
    assert (found.module, found.severity) == ("h.2.act", "warning")
    every = dict.fromkeys(numbers, 0.7)
    assert [*shares_of_trouble(evidence(every))] == []


def test_half_of_it_or_for_a_while_is_none():
    numbers = {("a", "DeadNeuronRatio"): 0.6, ("b", "DeadNeuronRatio"): [1.0] * 30 + [0.2] * 10}
    assert [*shares_of_trouble(evidence(numbers))] == []


@pytest.mark.parametrize(("shape", "is_told"), [("8×8×1×1", False), ("8×64×1×1", True)])
def test_of_few_units_more_are_dead_by_chance(shape, is_told):
    """As of those of squeeze and excitation, each of which is given nearly the same always."""
    numbers = {(f"h.{i}.act", "DeadNeuronRatio"): 0.1 for i in range(4)}
    numbers["h.2.act", "DeadNeuronRatio"] = 0.75
    known = knowing(evidence(numbers), shape_before=lambda _: shape)
    assert [found.module for found in shares_of_trouble(known)] == ["h.2.act"] * is_told
