"""Every declared quantity through the very checks that users have for theirs."""

import pytest

from taiyi_fx.quantity import find_quantity, quantity_names
from taiyi_fx.testing import check_compiled, check_mergeable, check_quantity
from tests.quantities.references import MILD, NOT_YET, PROOFS


def asked(name):
    """How a quantity is asked for, in every check."""
    proof = PROOFS[name]
    mild = proof.tensors or MILD if name in NOT_YET else proof.tensors
    return {
        "rel": max(proof.rel, 1e-3) if name in NOT_YET else proof.rel,
        "floor": proof.floor,
        "options": proof.options,
        "tensors": mild,
        "modules": proof.modules,
    }


@pytest.mark.parametrize("name", PROOFS)
def test_a_quantity_is_what_its_reference_says(name):
    check_quantity(name, PROOFS[name].reference, **asked(name), max_examples=40)


@pytest.mark.parametrize("name", PROOFS)
def test_a_quantity_is_that_of_all_rows_however_they_are_split(name):
    check_mergeable(name, **asked(name), any_order=PROOFS[name].any_order, max_examples=12)


@pytest.mark.parametrize("name", [name for name, proof in PROOFS.items() if not proof.not_compiled])
def test_a_quantity_is_the_same_in_compiled_code(name):
    check_compiled(name, **{**asked(name), "tensors": None}, max_examples=2)


def test_every_declared_quantity_has_a_reference():
    ours = {
        name
        for name in quantity_names()
        if find_quantity(name).compute.__module__.startswith("taiyi_fx.")
    }
    assert set(PROOFS) == ours
    assert set(NOT_YET) <= ours
