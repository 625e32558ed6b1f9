"""Tests of faults that have a mended twin: each is one, and is told from its twin."""

import inspect

import pytest

from benchmarks.faults import twinned
from benchmarks.faults.fault import FAULTS, Fault
from benchmarks.faults.twinned.twin import errors

_TWINNED = [f for f in FAULTS if f.plant.__module__.startswith(twinned.__name__)]


def test_there_are_forty_and_more() -> None:
    assert len(_TWINNED) >= 40


@pytest.mark.parametrize("fault", _TWINNED, ids=lambda fault: fault.name)
def test_each_can_be_mended(fault: Fault) -> None:
    assert "is_mended" in inspect.signature(fault.plant).parameters


def test_a_fault_is_worse_than_its_twin() -> None:
    fault = next(f for f in _TWINNED if f.name == "gradients_cleared_before_the_step")
    mended, faulty = errors(fault)
    assert faulty > 2 * mended
