"""Linear layers that return more than their weights can make."""

import numpy as np
import pytest

from taiyi_fx.findings.facts.attributes import Attributes
from taiyi_fx.findings.rules.structure.foreign_outputs import foreign_outputs
from tests.findings.given import evidence, knowing

WIDTH, OUTPUTS, ELEMENT = 64, 16, 0.1
NORM = ELEMENT * (WIDTH * OUTPUTS) ** 0.5
MOST = NORM * (WIDTH / OUTPUTS) ** 0.5
"""What an input of size 1 may become, if all of it lies along the largest direction."""


def found_for(returned, features=(WIDTH, OUTPUTS), **more):
    numbers = {("fc", "InputRMS"): 1.0, ("fc", "OutputRMS"): returned, ("fc", "WeightNorm"): NORM}
    numbers |= {("fc", "ParameterRMS.weight"): ELEMENT}
    numbers |= {("fc", name): value for name, value in more.items()}
    known = knowing(evidence(numbers), attributes={"fc": Attributes("Linear", {}, features)})
    return [*foreign_outputs(known)]


def test_a_layer_that_returns_more_is_named_from_the_first_step_on():
    (found,) = found_for(np.where(np.arange(40) < 5, 1.0, 3 * MOST))
    assert (found.kind, found.severity, found.module) == ("foreign_output", "warning", "fc")
    assert found.step == 5
    assert f"can make {MOST:.3g} at most" in found.text


@pytest.mark.parametrize(
    "found",
    [
        found_for(MOST),
        found_for(np.where(np.arange(40) < 5, 3 * MOST, 1.0)),
        found_for(3 * MOST, (0, 0)),
        found_for(3 * MOST, (WIDTH, 2 * OUTPUTS)),
        found_for(3 * MOST, **{"ParameterRMS.bias": 4.0 * MOST}),
    ],
    ids=["the largest direction", "at some steps", "no linear layer", "packed", "a bias"],
)
def test_what_a_weight_and_a_bias_can_make_is_none(found):
    assert found == []
