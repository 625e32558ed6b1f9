"""Inputs, outputs and units that are all alike."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings.facts.attributes import attributes_of
from taiyi_fx.findings.rules.values.alike import alike_rows
from tests.findings.given import evidence, knowing

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


@pytest.mark.parametrize(("entries", "is_told"), [(1024, True), (8, False)])
def test_a_large_table_that_is_given_one_index_is_told_beside_others(entries, is_told):
    numbers = {}
    for name, (mean, deviation) in {"users": (DRAWN, DRAWN), "goods": (0.0, 0.0)}.items():
        numbers |= {(name, "InputMean"): mean, (name, "InputStd"): deviation}
    model = nn.ModuleDict({"users": nn.Embedding(64, 4), "goods": nn.Embedding(entries, 4)})
    known = knowing(evidence(numbers), attributes=attributes_of(dict(model.named_modules())))
    assert [found.module for found in alike_rows(known)] == ["goods"] * is_told


@pytest.mark.parametrize(
    "name", ["wpe", "embeddings.position_embeddings", "pos", "embed_positions"]
)
def test_positions_that_are_all_one_are_told_beside_tokens(name):
    (found,) = indices(**{"words": (DRAWN, DRAWN), name: (0.0, 0.0)})
    assert found.module == name


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
    assert len([*alike_rows(knowing(known, before_module=lambda _: functions))]) == count
    of_attention = {("attention()", "AttentionEntropy"): 1.0}
    known = evidence({**numbers, **of_attention, ("2", "OutputVariation"): np.full(5, 1e-6)})
    before = {"attention()"} if "softmax" in functions else {"1"}
    known = knowing(known, modules_before=lambda *_: before)
    assert len([*alike_rows(known)]) == count


@pytest.mark.parametrize(("scale", "count"), [(1e-5, 0), (1.0, 1)])
def test_a_token_behind_branches_that_begin_at_nothing_is_one_for_all(scale, count):
    numbers = {(name, "OutputVariation"): np.full(5, 0.2) for name in NAMES}
    numbers |= {("3", "OutputVariation"): np.full(5, 1e-5)}
    numbers |= {("2", "ParameterRMS.gamma"): scale, ("2", "ParameterNorm.gamma"): 8 * scale}
    numbers |= {("1", "ParameterRMS.weight"): 0.1, ("1", "ParameterNorm.weight"): 0.1 * 64}
    shapes = {"3": "8×48"}
    known = knowing(evidence(numbers), shape_before=lambda name: shapes.get(name, "8×17×48"))
    assert len([*alike_rows(known)]) == count


def found_in(initialise, *, rows=12, features=6, given=None):
    torch.manual_seed(0)
    given = given or features
    layers = [part for _ in range(4) for part in (nn.Linear(features, features), nn.ReLU())]
    layers[0] = nn.Linear(given, features)
    model = nn.Sequential(*layers, nn.Linear(features, 5))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            initialise(parameter)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(10):
        loss = F.cross_entropy(watched(torch.randn(rows, given)), torch.randint(5, (rows,)))
        watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    found = [one for one in watched.monitor.findings if one.kind == "rank_collapse"]
    return [one for one in found if "linear layers" in one.text]


def test_weights_of_one_number_are_a_warning_of_the_model():
    (found,) = found_in(lambda weight: nn.init.constant_(weight, 0.2))
    assert (found.severity, found.module) == ("warning", "")
    assert found.text.startswith("the outputs of '0', '2', '4' and 2 more vary along one direction")


@pytest.mark.parametrize(
    ("initialise", "options"),
    [
        (nn.init.xavier_normal_, {}),
        (nn.init.orthogonal_, {}),
        (lambda weight: nn.init.normal_(weight, std=1e-3), {}),
        (nn.init.xavier_normal_, {"rows": 2}),
        (lambda weight: nn.init.constant_(weight, 0.2), {"features": 3}),
        (lambda weight: nn.init.constant_(weight, 0.2), {"given": 1}),
    ],
    ids=["drawn", "orthogonal", "small", "two rows", "narrow", "one number is given"],
)
def test_units_that_differ_or_cannot_be_told_apart_are_none(initialise, options):
    assert found_in(initialise, **options) == []


def chosen(mean, deviation, made_of):
    numbers = {("codes", "InputMean"): mean, ("codes", "InputStd"): deviation}
    return knowing(
        evidence({("encoder", "OutputRMS"): 1.0} | numbers),
        modules_before=lambda module, known: made_of,
        before_module=lambda module: ["sub", "argmin"],
    )


@pytest.mark.parametrize("since", [0, 9])
def test_an_entry_that_the_model_itself_comes_to_choose_alone_is_told(since):
    is_one = np.arange(40) >= since
    known = chosen(np.where(is_one, 3.0, 7.0), np.where(is_one, 0.0, 2.0), ["encoder"])
    (found,) = alike_rows(known)
    assert (found.kind, found.module, found.step) == ("rank_collapse", "codes", since)
    assert found.text == (
        f"from step {since} on all indices that 'codes' is given are 3, as the model itself "
        "chooses them, by the operations `sub` and `argmin`"
    )
    assert "tokenizer" not in found.advice


def test_entries_that_change_from_step_to_step_and_those_of_data_are_none():
    assert [*alike_rows(chosen(np.arange(40) % 7, 0.0, ["encoder"]))] == []
    late = np.arange(40) >= 9
    assert [*alike_rows(chosen(3.0 * late, np.where(late, 0.0, 2.0), []))] == []
