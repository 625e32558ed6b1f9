"""The sizes of parameters, and what these tell."""

import numpy as np
import pytest

from taiyi_fx.findings.facts.parameters import parameter_of
from tests.findings.given import evidence


def sized(**parameters):
    """Evidence of parameters by name, each with the number and the root mean square of elements."""
    numbers = {}
    for name, (count, rms) in parameters.items():
        module, _, parameter = name.rpartition("__")
        numbers[module, f"ParameterRMS.{parameter}"] = rms
        numbers[module, f"ParameterNorm.{parameter}"] = rms * np.sqrt(count)
    return evidence(numbers).parameters


def test_the_number_of_elements_is_that_of_norm_and_root_mean_square():
    found = sized(fc__weight=(6400, 0.5), fc__bias=(64, 0.1), zero__weight=(10, 0.0))
    assert found.counts == pytest.approx({("fc", "weight"): 6400, ("fc", "bias"): 64})
    (bias,) = (s for s in found.sizes.values() if parameter_of(s) == "bias")
    assert found.count_of(bias) == pytest.approx(64)
    (zero,) = (s for s in found.sizes.values() if s.module == "zero")
    assert found.count_of(zero) == 0


def test_a_vector_has_few_elements_beside_the_largest_weight():
    found = sized(fc__weight=(6400, 0.5), norm__weight=(64, 1.0), head__weight=(640, 0.5))
    assert [m for m in ("fc", "norm", "head") if found.is_vector(m)] == ["norm"]


def test_the_weight_of_a_module_is_its_norm_or_that_of_its_first_weight():
    found = evidence(
        {
            ("lstm", "ParameterNorm.weight_ih_l0"): 2,
            ("fc", "WeightNorm"): 3,
            ("fc", "ParameterNorm.bias"): 1,
        }
    ).parameters
    assert {name: one.quantity for name, one in found.weights.items()} == {
        "lstm": "ParameterNorm.weight_ih_l0",
        "fc": "WeightNorm",
    }
    assert found.norms.keys() == {("lstm", "weight_ih_l0"), ("fc", "weight"), ("fc", "bias")}


def test_of_a_weight_norm_the_one_that_is_trained_counts():
    found = evidence(
        {
            ("fc", "ParameterNorm.weight_g"): 2,
            ("fc", "ParameterNorm.weight_v"): 3,
            ("fc", "ParameterGradNorm.weight_v"): 1,
        }
    ).parameters
    assert found.weights["fc"].quantity == "ParameterNorm.weight_v"


def test_a_weight_that_began_at_zero_is_known_by_its_first_number():
    found = evidence({("a", "WeightNorm"): [0.0, 1.0], ("b", "WeightNorm"): [1.0, 0.0]}).parameters
    assert found.began_at_zero("a")
    assert not found.began_at_zero("b")
    assert not found.began_at_zero("none")
    assert found.beginning_at_zero == {"a"}


@pytest.mark.parametrize(("size", "is_one"), [(1e-4, True), (1.0, False), (0.0, False)])
def test_layer_scales_are_gains_that_begin_at_next_to_nothing(size, is_one):
    found = sized(fc__weight=(6400, 0.5), block__gamma=(64, size))
    assert found.has_layer_scales is is_one


def test_a_bias_is_no_layer_scale():
    assert not sized(fc__weight=(6400, 0.5), fc__bias=(64, 1e-4)).has_layer_scales
