"""Inputs whose channels came last."""

from dataclasses import replace

import pytest

from taiyi_fx.findings import GivenInputs, Interleaving
from taiyi_fx.findings.rules.values.interleaved_inputs import interleaved_inputs
from tests.findings.given import evidence

TORN = Interleaving((3, 20, 30), 0.8, 0.6, 0.85)


def found_for(*looks, is_training=True):
    known = evidence({("", "loss"): 1.0})
    inputs = GivenInputs(interleaving={is_training: {"x": looks}})
    return [*interleaved_inputs(replace(known, inputs=inputs))]


def test_an_input_whose_neighbours_are_like_channels_is_told():
    (found,) = found_for(TORN, TORN)
    assert (found.kind, found.severity, found.module) == ("torn_view", "warning", "")
    assert "the input 'x', of shape (n, 3, 20, 30)" in found.text
    assert "as if it were (20, 30, 3) in memory" in found.text
    (found,) = found_for(TORN, TORN, is_training=False)
    assert "the input 'x' of evaluation, of shape (n, 3, 20, 30)" in found.text


@pytest.mark.parametrize(
    "looks",
    [
        (TORN,),
        (TORN, TORN._replace(next=0.5)),
        (TORN._replace(next=0.65),) * 3,
        (TORN._replace(across=1.3),) * 3,
        (Interleaving((3, 20, 30), 0.0, 0.0, 0.0),) * 3,
    ],
    ids=["once", "not always", "noise", "a period", "nothing"],
)
def test_others_are_not(looks):
    assert found_for(*looks) == []
