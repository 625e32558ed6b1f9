"""Modules of which nearly all is in trouble."""

import numpy as np

from taiyi_fx.findings.shares import shares_of_trouble
from tests.findings.given import evidence


def test_a_dead_module_is_named_with_the_step_from_which_it_is():
    values = np.where(np.arange(40) < 12, 0.4, 1.0)
    (found,) = shares_of_trouble(evidence({("act", "DeadNeuronRatio"): values}))
    assert (found.module, found.step, found.severity) == ("act", 12, "alert")


def test_half_of_it_or_for_a_while_is_none():
    numbers = {("a", "DeadNeuronRatio"): 0.6, ("b", "DeadNeuronRatio"): [1.0] * 30 + [0.2] * 10}
    assert [*shares_of_trouble(evidence(numbers))] == []
