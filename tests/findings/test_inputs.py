"""What the model is given."""

import pytest

from taiyi_fx.findings.inputs import wild_inputs
from tests.findings.given import evidence


@pytest.mark.parametrize("size", [1e4, 1e-6])
def test_data_of_a_wild_scale_are_a_finding(size):
    numbers = {("a", "InputRMS"): size, ("b", "InputRMS"): 1.0}
    (found,) = wild_inputs(evidence(numbers))
    assert (found.module, found.severity) == ("a", "warning")


def test_usual_data_and_other_modules_are_none():
    assert [*wild_inputs(evidence({("a", "InputRMS"): 16.0, ("b", "InputRMS"): 1e4}))] == []
    assert [*wild_inputs(evidence({("a", "OutputRMS"): 1e4}))] == []
