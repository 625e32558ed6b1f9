"""Every declared quantity through the very checks that users have for theirs."""

import re

import pytest

import taiyi_fx
from taiyi_fx.testing import check_compiled, check_mergeable, check_quantity
from tests.examples import tried
from tests.quantities.proofs import (
    OF_CALLS,
    OF_FORMATS,
    OF_LARGE_WEIGHTS,
    OF_OPTIMIZERS,
    OF_WHOLE_MODEL,
    PROOFS,
)

ELSEWHERE = (*OF_WHOLE_MODEL, *OF_OPTIMIZERS, *OF_LARGE_WEIGHTS, *OF_FORMATS, *OF_CALLS)


def promised(name):
    """The relative error that a quantity's documentation allows."""
    accuracy = taiyi_fx.quantities()[name].accuracy
    found = re.match(r"[\d.]+e-\d+", accuracy)
    assert found or accuracy.startswith(("exact", "within")), accuracy
    return float(found[0]) if found else 1e-12  # counts are divided, in float64


def asked(name):
    """How a quantity is asked for, in every check."""
    proof = PROOFS[name]
    return {
        "rel": promised(name),
        "floor": proof.floor,
        "options": proof.options,
        "tensors": proof.tensors,
        "modules": proof.modules,
    }


@tried(12, of=24)
@pytest.mark.parametrize("name", PROOFS)
def test_a_quantity_is_what_its_reference_says_as_closely_as_it_promises(name, examples):
    check_quantity(name, PROOFS[name].reference, **asked(name), max_examples=examples)


@tried(5, of=8)
@pytest.mark.parametrize("name", [name for name, proof in PROOFS.items() if proof.is_split])
def test_a_quantity_is_that_of_all_rows_however_they_are_split(name, examples):
    any_order = PROOFS[name].any_order
    check_mergeable(name, **asked(name), any_order=any_order, max_examples=examples)


COMPILED = [name for name, proof in PROOFS.items() if not proof.not_compiled]
ONE_OF_EACH_FILE = {taiyi_fx.quantities()[name].declared_in: name for name in COMPILED}.values()


@pytest.mark.parametrize(
    ("name", "examples"),
    [
        *(pytest.param(name, 1, marks=pytest.mark.sample) for name in ONE_OF_EACH_FILE),
        *(pytest.param(name, 2, marks=pytest.mark.exhaustive) for name in COMPILED),
    ],
)
def test_a_quantity_is_the_same_in_compiled_code(name, examples):
    check_compiled(name, **asked(name), max_examples=examples)


def test_every_declared_quantity_has_a_reference():
    infos = taiyi_fx.quantities()
    assert {*PROOFS, *ELSEWHERE} == {i.name for i in infos if i.declared_in.startswith("taiyi_fx.")}
