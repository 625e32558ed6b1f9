"""Batches that are handed out again and again."""

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings import LossGraph
from taiyi_fx.findings.rules.values.repeated_inputs import repeated_inputs
from tests.findings.given import evidence, knowing

RNG = np.random.default_rng(0)
DRAWN = RNG.uniform(0.9, 1.1, 40)


def found_for(values, steps=None, quantities=("InputRMS",)):
    numbers = {("0", name): values for name in quantities}
    return [*repeated_inputs(evidence({**numbers, ("1", "InputRMS"): np.ones(len(values))}, steps))]


def same_from(i, values=DRAWN):
    return np.where(np.arange(len(values)) < i, values, values[i])


def test_a_size_that_stays_to_the_last_bit_is_told_from_the_step_on():
    (found,) = found_for(same_from(25))
    assert (found.kind, found.severity, found.module) == ("repeated_input", "warning", "0")
    assert found.step == 25


def test_indices_are_known_by_their_mean_and_deviation():
    (found,) = found_for(same_from(25), quantities=("InputMean", "InputStd"))
    assert (found.module, found.step) == ("0", 25)
    assert found_for(same_from(25), quantities=("InputMean",)) == []


@pytest.mark.parametrize(
    "values",
    [
        DRAWN,
        same_from(38),
        np.resize(DRAWN[:4], 40),
        1 - 1e-9 * np.arange(40),
        same_from(25, 0.5**0.5 + 1e-7 * DRAWN),
    ],
    ids=["drawn", "twice", "in order", "nearly", "but for rounding"],
)
def test_others_are_none(values):
    assert found_for(values) == []


def test_one_batch_from_the_start_is_a_note_as_a_small_data_set_is_one():
    (found,) = found_for(1.1 * np.ones(40))
    assert (found.severity, found.module, found.step) == ("note", "0", 0)
    assert "at all 40 steps that were read, from the first on" in found.text
    assert found_for(np.ones(7)) == found_for(np.zeros(40)) == []
    assert found_for(1.1 * np.ones(40), range(100, 140)) == []


@pytest.mark.parametrize(("takes_rows", "severity"), [(False, "warning"), (True, "note")])
def test_a_graph_is_given_whole_at_each_step_where_the_loss_is_of_some_nodes(takes_rows, severity):
    numbers = {("0", "InputRMS"): 1.1 * np.ones(40), ("", "loss"): 0.01, ("", "val_loss"): 3.0}
    graphs = {"loss": LossGraph(takes_rows=takes_rows)}
    (found,) = repeated_inputs(knowing(evidence(numbers), loss_graphs=graphs))
    assert found.severity == severity


@pytest.mark.parametrize(
    "size",
    [1.0, 0.5**0.5, 0.1**0.5, np.nan, np.inf],
    ids=["signs", "angles", "one of ten", "of nothing", "overflow"],
)
def test_codes_that_any_batch_has_in_one_size_are_none(size):
    assert found_for(size * np.ones(40)) == []


def test_places_that_are_the_same_at_each_step_are_no_batch():
    numbers = {("places", "InputMean"): 15.5, ("places", "InputStd"): 9.2}
    numbers |= {("words", "InputMean"): DRAWN, ("words", "InputStd"): DRAWN}
    assert [*repeated_inputs(evidence(numbers))] == []


@pytest.mark.parametrize(
    ("indices", "is_told"),
    [
        (np.arange(32), False),
        (np.tile(np.arange(2, 34), 16), False),
        (np.full(64, 3), False),
        (np.arange(32) ** 2, True),
        (RNG.integers(0, 900, 512), True),
    ],
    ids=["places", "places of samples", "one index", "others", "tokens"],
)
def test_indices_of_places_may_be_the_same_again(indices, is_told):
    """As where all batches are cut to the same length from some step on."""
    known = {"InputMean": np.mean(indices), "InputStd": np.std(indices, ddof=1)}
    numbers = {
        ("places", name): same_from(25, np.append(DRAWN[:25], [x] * 15))
        for name, x in known.items()
    }
    assert bool([*repeated_inputs(evidence(numbers))]) == is_told


def test_each_twentieth_step_may_come_to_the_same_batch():
    epoch = RNG.uniform(0.9, 1.1, 20)
    steps = [*range(40), *range(60, 200, 20)]
    values = epoch[np.array(steps) % 20]
    assert found_for(values, steps) == []
    stays = np.where(np.array(steps) < 60, RNG.uniform(0.9, 1.1, len(steps)), 1.0)
    (found,) = found_for(stays, steps)
    assert found.step == 60


@pytest.mark.parametrize("is_anew", [True, False])
def test_an_embedding_that_is_given_the_same_tokens_is_told(is_anew):
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(nn.Sequential(nn.Embedding(50, 4), nn.Linear(4, 50)))
    ids = torch.randint(50, (8, 6))
    for step in range(40):
        ids = torch.randint(50, (8, 6)) if is_anew or step < 20 else ids
        watched(ids).square().mean().backward()
        watched.monitor.track(step)
    kinds = [found.kind for found in watched.monitor.findings]
    assert ("repeated_input" in kinds) != is_anew


def test_indices_that_the_model_itself_makes_have_no_loader():
    numbers = {("0", name): same_from(25) for name in ("InputMean", "InputStd")}
    known = evidence({**numbers, ("encoder", "OutputRMS"): 1.0, ("1", "InputRMS"): 1.0})
    assert [one.module for one in repeated_inputs(known)] == ["0"]
    inside = knowing(known, modules_before=lambda module, known: ["encoder"])
    assert [*repeated_inputs(inside)] == []


@pytest.mark.parametrize(("of_evaluation", "severity"), [(0.25, "warning"), (0.01, "note")])
def test_one_batch_that_is_learnt_by_heart_is_a_warning(of_evaluation, severity):
    numbers = {("0", "InputRMS"): 1.1 * np.ones(40), ("", "loss"): np.geomspace(1, 2e-3, 40)}
    numbers |= {("", "val_loss"): of_evaluation}
    (found,) = repeated_inputs(evidence(numbers))
    assert found.severity == severity
