"""Blocks that lack a residual connection or a norm."""

import numpy as np
import pytest

from taiyi_fx.findings.rules.structure.left_out import missing_norms, missing_residuals
from tests.findings.given import evidence, knowing

WAVE = 1 + 0.1 * np.sin(np.arange(40))


def stream(lacking=(), shape=lambda module: "8×16"):
    """Blocks whose norms are given the stream and what the block before adds to it."""
    numbers = {}
    for i in range(6):
        added = 0.2 * WAVE
        numbers |= {
            (f"h.{i}.norm", "InputRMS"): 0.2 * WAVE if i - 1 in lacking else 1 + added,
            (f"h.{i}.norm", "OutputRMS"): 1.0,
            (f"h.{i}.mlp", "InputRMS"): 1.0,
            (f"h.{i}.mlp", "OutputRMS"): added,
        }
    return knowing(evidence(numbers), shape_before=shape)


def test_a_block_that_hands_on_what_its_last_module_returns_lacks_the_residual():
    (found,) = missing_residuals(stream([2]))
    assert (found.kind, found.module, found.severity) == ("missing_residual", "h.2.mlp", "warning")
    assert "'h.3.norm' is given what 'h.2.mlp' returns, and nothing else" in found.text


def test_the_size_alone_is_no_reason():
    numbers = {(s.module, s.quantity): s.values for s in stream().series}
    numbers["h.3.norm", "InputRMS"] = 0.2003 * WAVE
    known = knowing(evidence(numbers), shape_before=lambda module: "8×16")
    assert [*missing_residuals(known)] == []


@pytest.mark.parametrize(
    ("functions", "modules"),
    [({3: ["relu"]}, ["h.2.mlp"]), ({3: ["relu", "add"]}, []), ({3: ["relu"], 4: ["relu"]}, [])],
    ids=["one", "none", "two"],
)
def test_functions_tell_it_where_something_is_made_of_what_the_last_module_returns(
    functions, modules
):
    numbers = {(s.module, s.quantity): s.values for s in stream().series}
    numbers["h.3.norm", "InputRMS"] = 0.14 * WAVE
    ways = {f"h.{i}.norm": functions.get(i, ["add", "relu"]) for i in (1, 3, 4)}
    known = knowing(
        evidence(numbers),
        shape_before=lambda module: "8×16",
        before_module=lambda module: ways.get(module, []),
    )
    assert [found.module for found in missing_residuals(known)] == modules


def test_a_block_that_makes_another_shape_can_add_nothing():
    """As the first of each stage of a MobileNet, behind which all are given one shape."""
    shapes = {"h.2.norm": "8×32"}
    known = stream([2], shape=lambda module: shapes.get(module, "8×16"))
    assert [*missing_residuals(known)] == []


@pytest.mark.parametrize("lacking", [(), (1, 2), (0, 1, 2, 3, 4)], ids=["none", "two", "all"])
def test_blocks_that_are_built_so_are_none(lacking):
    assert [*missing_residuals(stream(lacking))] == []


@pytest.mark.parametrize(
    "shape", [lambda module: "", lambda module: "8×8" if "3" in module else "8×16"]
)
def test_between_stages_of_other_shapes_and_where_none_is_known_nothing_is_said(shape):
    assert [*missing_residuals(stream([2], shape))] == []


def normed(without, size):
    """Blocks of a norm and a linear layer, one of them without its norm."""
    numbers = {("first", "OutputRMS"): size, ("first", "InputRMS"): 1.0}
    for i in range(6):
        given = size if i == without else 1.0
        if i != without:
            numbers[f"h.{i}.norm", "InputRMS"] = numbers[f"h.{i}.norm", "OutputRMS"] = size
            numbers[f"h.{i}.norm", "OutputRMS"] = 1.0
            numbers[f"h.{i}.norm", "ParameterRMS.weight"] = 1.0
            numbers[f"h.{i}.norm", "WeightNorm"] = 4.0
        numbers[f"h.{i}.mlp", "InputRMS"] = given
        numbers[f"h.{i}.mlp", "OutputRMS"] = 0.3
        numbers[f"h.{i}.mlp", "ParameterRMS.weight"] = 0.1
        numbers[f"h.{i}.mlp", "WeightNorm"] = 3.2
    return evidence(numbers)


def test_a_module_that_is_given_what_no_norm_returned_lacks_it():
    (found,) = missing_norms(normed(3, 2.5))
    assert (found.kind, found.module, found.value) == ("missing_norm", "h.3.mlp", 2.5)


@pytest.mark.parametrize(
    ("without", "size"), [(None, 2.5), (0, 2.5), (3, 1.2)], ids=["none", "first", "same size"]
)
def test_the_first_of_all_and_one_of_the_usual_size_are_none(without, size):
    assert [*missing_norms(normed(without, size))] == []


def of_nothing(given):
    returned = np.where(np.arange(40) < 1, 0.0, 0.1)
    numbers = {("a.up", "OutputRMS"): 1.0, ("a.up", "InputRMS"): 1.0}
    numbers |= {("a.down", "OutputRMS"): returned, ("a.down", "InputRMS"): 1.0}
    numbers |= {("a.down", "WeightNorm"): returned, ("b.up", "InputRMS"): given}
    return [*missing_residuals(evidence({**numbers, ("b.up", "OutputRMS"): 1.0}))]


def test_a_branch_that_begins_at_nothing_and_is_all_that_is_handed_on_is_named():
    (found,) = of_nothing(np.where(np.arange(40) < 1, 0.0, 0.1))
    assert (found.kind, found.module) == ("missing_residual", "a.down")


def test_beside_a_way_round_it_is_none():
    assert of_nothing(1.0) == []
