"""Residual streams that grow by more than is added to them."""

from dataclasses import replace

import numpy as np
import pytest

from taiyi_fx.findings.rules.values.stream_jumps import stream_jumps
from tests.findings.given import evidence

PARTS = ("norm", "up", "down")


def of(*given, branch=0.5):
    numbers = {}
    for i, size in enumerate(given):
        for part in PARTS:
            numbers[f"h.{i}.{part}", "OutputRMS"] = 1.0 if part == "norm" else branch
            numbers[f"h.{i}.{part}", "InputRMS"] = size if part == "norm" else 1.0
            n = 8 if part == "norm" else 64
            numbers[f"h.{i}.{part}", "ParameterRMS.weight"] = 1.0 if part == "norm" else 0.1
            numbers[f"h.{i}.{part}", "WeightNorm"] = n**0.5 * (1.0 if part == "norm" else 0.1)
    return evidence(numbers)


def test_what_grows_by_more_than_its_parts_is_named_with_what_makes_it():
    known = replace(of(1.0, 1.4, 40.0, 40.5), before_module=lambda _: ["add", "mul"])
    (found,) = stream_jumps(known)
    assert (found.kind, found.module, found.severity) == ("stream_jump", "h.2.norm", "warning")
    assert "is 40" in found.text
    assert "add up to 2.4 at most" in found.text
    assert found.text.endswith("add, mul make it")


def test_one_that_the_training_makes_up_for_is_named_too():
    (found,) = stream_jumps(of(1.0, np.where(np.arange(40) < 3, 40.0, 1.0), 1.2))
    assert (found.module, found.step) == ("h.1.norm", 0)


@pytest.mark.parametrize(
    "known",
    [
        of(1.0, 1.4, 1.8, 2.2),
        of(1.0, 30.0, 31.0, branch=40.0),
        of(1.0, np.where(np.arange(40) == 9, 40.0, 1.0)),
        of(0.0, 0.0),
    ],
    ids=["sum", "large branch", "one batch", "nothing"],
)
def test_sums_are_none(known):
    assert [*stream_jumps(known)] == []


def test_one_that_jumps_at_the_end_is_named_from_then_on():
    (found,) = stream_jumps(of(1.0, np.where(np.arange(40) < 30, 1.0, 40.0)))
    assert (found.module, found.step) == ("h.1.norm", 30)


def test_one_that_is_given_more_than_the_sum_that_all_others_are_given_is_named():
    (found,) = stream_jumps(of(1.0, 1.4, 2.9, 3.2, 3.4))
    assert (found.module, found.step) == ("h.2.norm", 0)
    assert "add up to 1.9 at most" in found.text


@pytest.mark.parametrize(
    "sizes", [(1.0, 1.4, 2.9, 4.9, 5.0), (1.0, 1.4, 2.9, 3.2), (1.0, 1.9, 2.4, 3.0, 3.9)]
)
def test_streams_that_are_weighed_in_more_than_one_place_are_none(sizes):
    assert [*stream_jumps(of(*sizes))] == []
