"""Entries with a code for what is missing."""

from dataclasses import replace

import pytest

from taiyi_fx.findings import FarEntry, GivenInputs
from taiyi_fx.findings.rules.values.far_entries import far_entries
from tests.findings.given import evidence

CODE = FarEntry(3, -999.0, 0.06, 700.0)
NONE = FarEntry(1, -2.5, 0.06, 0.3)


def found_for(*looks):
    return [
        *far_entries(replace(evidence({("", "loss"): 1.0}), inputs=GivenInputs(far={"x": looks})))
    ]


def test_one_value_far_from_all_others_in_most_forwards_is_told():
    (found,) = found_for(CODE, CODE, NONE)
    assert (found.kind, found.severity, found.module) == ("far_entry", "warning", "")
    assert "entry 3 of the input 'x' is -999 in 6% of the samples, 700 deviations" in found.text
    assert len(found_for(CODE._replace(entry=5), CODE, CODE)) == 1


@pytest.mark.parametrize(
    "looks",
    [(), (CODE,), (CODE, NONE, NONE), (CODE, CODE._replace(value=-7.0)), (NONE, NONE)],
    ids=["none", "once", "seldom", "another value", "near"],
)
def test_others_are_not(looks):
    assert found_for(*looks) == []
