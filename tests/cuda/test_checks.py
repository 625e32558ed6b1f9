"""The checks that users have for quantities and models, on a device."""

import dataclasses

import pytest

from taiyi_fx.testing import (
    check_compiled,
    check_faithful,
    check_mergeable,
    check_quantity,
    models,
    tensors,
)
from tests.quantities.proofs import PROOFS
from tests.quantities.test_proofs import asked

ON_A_CPU = ("InputStd", "OutputGradRMS", "WeightGradNorm", "InputCovMaxEig", "ParameterFingerprint")
"""Where there is no GPU these show that the tests here run: those of quantities try all."""


def on(device, name, number):
    """How a quantity is checked on a device."""
    if not device.is_cuda and name not in ON_A_CPU:
        pytest.skip("tests/quantities/test_proofs.py checks it on a CPU")
    how = asked(name)
    drawn = tensors() if how["tensors"] is None else how["tensors"]
    drawn = drawn.map(lambda recipe: dataclasses.replace(recipe, device=device.kind))
    if name.endswith("Fingerprint"):  # a GPU changes which NaN it is as it goes through
        drawn = drawn.filter(lambda recipe: recipe.kind != "nan")
    return {**how, "tensors": drawn, "max_examples": number if device.is_cuda else 1}


@pytest.mark.parametrize("name", PROOFS)
def test_a_quantity_is_what_its_reference_says(device, name):
    check_quantity(name, PROOFS[name].reference, **on(device, name, 10))


@pytest.mark.parametrize("name", [name for name, proof in PROOFS.items() if proof.is_split])
def test_a_quantity_is_that_of_all_rows_however_they_are_split(device, name):
    check_mergeable(name, **on(device, name, 4), any_order=PROOFS[name].any_order)


@pytest.mark.parametrize("name", ["InputStd", "OutputGradRMS", "WeightGradNorm", "InputCovMaxEig"])
def test_a_quantity_is_the_same_in_compiled_code(device, name):
    how = on(device, name, 2)
    plain = tensors(kinds=("full",), layouts=("contiguous",), scales=(1.0,), device=device.kind)
    check_compiled(name, **{**how, "tensors": plain})


@pytest.mark.parametrize("forms", ["graph", "python"])
def test_any_model_stays_what_it_is(device, forms):
    number = 60 if device.is_cuda else 1
    check_faithful(models(forms), max_examples=number, device=device.kind)
