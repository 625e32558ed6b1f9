"""What the model is given."""

import numpy as np
import pytest

from taiyi_fx.findings.inputs import wild_inputs
from tests.findings.given import evidence


@pytest.mark.parametrize(
    ("size", "severity"),
    [(300.0, "warning"), (5e-4, "warning"), (1e4, "alert"), (1e-6, "alert"), (0.0, "alert")],
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


def test_one_batch_that_is_far_larger_is_named_with_its_step():
    (found,) = wild_inputs(evidence({("a", "InputRMS"): np.where(np.arange(40) == 25, 80.0, 1.0)}))
    assert (found.kind, found.severity, found.step) == ("input_spike", "warning", 25)
    assert [
        *wild_inputs(evidence({("a", "InputRMS"): np.where(np.arange(40) == 25, 9.0, 1.0)}))
    ] == []
