"""Rows and indices that hardly differ."""

from dataclasses import replace

import numpy as np
import pytest

from taiyi_fx.findings.rules.values.variation import alike_rows
from tests.findings.given import evidence

NAMES = ("0", "1", "2", "3")


def rows(**shares):
    usual = dict.fromkeys(NAMES, 0.2) | {name[1:]: share for name, share in shares.items()}
    numbers = {(name, "OutputVariation"): [share] * 3 for name, share in usual.items()}
    return [*alike_rows(evidence(numbers))]


def test_a_model_that_is_given_all_the_same_is_told_at_its_first_module():
    (found,) = rows(_0=1e-6, _1=1e-5, _2=1e-5)
    assert (found.kind, found.severity, found.module) == ("rank_collapse", "warning", "0")
    assert "1.0e-03 of their size" in found.text
    assert "data" in found.advice


def test_a_module_that_makes_rows_alike_is_named():
    (found,) = rows(_2=1e-6, _3=1e-7)
    assert found.module == "2"
    assert "offset" in found.advice


@pytest.mark.parametrize(
    "found",
    [rows(), rows(_1=1e-3), rows(_1=5e-3, _2=5e-5), rows(_0=np.nan, _1=0.3), rows(_1=0.0)],
    ids=["usual", "a percent", "little by little", "of one row", "zeros elsewhere"],
)
def test_rows_that_differ_are_none(found):
    assert found == []


@pytest.mark.parametrize(
    ("bias", "output", "is_told"), [(5.1, 5.1, False), (9, 9, True), (0, 1, True)]
)
def test_a_module_that_begins_with_its_bias_alone_is_none(bias, output, is_told):
    """As the layer of Mamba's step sizes, whose bias is -2.3 to -6.9."""
    numbers = {(name, "OutputVariation"): [0.2, 0.2, 0.2] for name in NAMES}
    numbers |= {("2", "OutputVariation"): [1e-5, 1e-5, 1e-5]}
    numbers |= {("2", "ParameterRMS.bias"): [bias] * 3, ("2", "OutputRMS"): [output] * 3}
    assert [found.module for found in alike_rows(evidence(numbers))] == ["2"] * is_told


def indices(**of):
    numbers = {}
    for name, (mean, deviation) in of.items():
        numbers |= {(name, "InputMean"): mean, (name, "InputStd"): deviation}
    return [*alike_rows(evidence(numbers))]


DRAWN = np.random.default_rng(0).uniform(10, 20, 40)


def test_one_index_alone_is_told_beside_positions():
    (found,) = indices(words=(3.0, 0.0), places=(15.5, 9.2))
    assert (found.module, found.value) == ("words", 3.0)


@pytest.mark.parametrize(
    "found",
    [
        indices(words=(DRAWN, DRAWN), places=(15.5, 9.2)),
        indices(words=(DRAWN, DRAWN), kinds=(0.0, 0.0)),
        indices(label=(DRAWN, 0.0)),
        indices(places=(15.5, 9.2)),
    ],
    ids=["tokens", "beside tokens", "of one sample", "positions alone"],
)
def test_indices_that_differ_are_none(found):
    assert found == []


def test_rows_that_come_apart_are_none():
    """As those of a token of a class, behind branches that begin at next to nothing."""
    numbers = {(name, "OutputVariation"): np.full(5, 0.2) for name in NAMES}
    numbers["3", "OutputVariation"] = 1e-6 * 2.0 ** np.arange(5)
    assert [*alike_rows(evidence(numbers))] == []


@pytest.mark.parametrize(("bias", "count"), [(4.6, 0), (0.1, 1)])
def test_a_head_that_begins_with_a_prior_returns_that(bias, count):
    """As a detector's, whose bias says that objects are rare."""
    numbers = {(name, "OutputVariation"): np.full(5, 0.2) for name in NAMES}
    numbers |= {("3", "OutputVariation"): np.full(5, 1e-7), ("3", "OutputRMS"): np.full(5, 4.6)}
    numbers |= {("3", "ParameterRMS.bias"): np.full(5, bias)}
    assert len([*alike_rows(evidence(numbers))]) == count


@pytest.mark.parametrize(
    ("functions", "count"), [(["mul", "softmax"], 0), (["mul"], 1)], ids=["softmax", "product"]
)
def test_the_shares_of_a_softmax_begin_alike(functions, count):
    """As talking heads are given them (arXiv 2003.02436), while logits are small."""
    numbers = {(name, "OutputVariation"): np.full(5, 0.2) for name in NAMES}
    known = evidence({**numbers, ("2", "OutputVariation"): np.full(5, 1e-6)})
    assert len([*alike_rows(replace(known, before_module=lambda _: functions))]) == count
    of_attention = {("attention()", "AttentionEntropy"): 1.0}
    known = evidence({**numbers, **of_attention, ("2", "OutputVariation"): np.full(5, 1e-6)})
    before = {"attention()"} if "softmax" in functions else {"1"}
    known = replace(known, modules_before=lambda *_: before)
    assert len([*alike_rows(known)]) == count


@pytest.mark.parametrize(("scale", "count"), [(1e-5, 0), (1.0, 1)])
def test_a_token_behind_branches_that_begin_at_nothing_is_one_for_all(scale, count):
    numbers = {(name, "OutputVariation"): np.full(5, 0.2) for name in NAMES}
    numbers |= {("3", "OutputVariation"): np.full(5, 1e-5)}
    numbers |= {("2", "ParameterRMS.gamma"): scale, ("2", "ParameterNorm.gamma"): 8 * scale}
    numbers |= {("1", "ParameterRMS.weight"): 0.1, ("1", "ParameterNorm.weight"): 0.1 * 64}
    shapes = {"3": "8×48"}
    known = replace(evidence(numbers), shape_before=lambda name: shapes.get(name, "8×17×48"))
    assert len([*alike_rows(known)]) == count
