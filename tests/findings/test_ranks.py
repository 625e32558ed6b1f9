"""Outputs that lie along one direction."""

import numpy as np
import pytest

from taiyi_fx.findings.ranks import rank_collapses
from tests.findings.given import evidence


def of(odd, **others):
    numbers = {(f"h.{i}.fc", "ParticipationRatio"): 6.0 for i in range(4)}
    return evidence({**numbers, ("h.2.fc", "ParticipationRatio"): odd, **others})


@pytest.mark.parametrize(
    ("odd", "step"),
    [(1.0, 0), (np.linspace(1, 5, 40), 0), (np.where(np.arange(40) < 10, 6.0, 1.0), 10)],
    ids=["always", "in the beginning", "at the end"],
)
def test_one_among_siblings_is_named_with_the_step(odd, step):
    (found,) = rank_collapses(of(odd))
    assert (found.module, found.severity, found.step) == ("h.2.fc", "warning", step)


def test_a_few_steps_in_between_are_none():
    assert [*rank_collapses(of(np.where(np.arange(40) == 20, 1.0, 6.0)))] == []


def test_a_first_batch_of_two_rows_is_none():
    assert [*rank_collapses(of([1.0, 4.1, 5.7, 6.0]))] == []


def test_a_call_of_a_module_whose_other_calls_vary_is_none():
    numbers = {(f"up@{i}" if i else "up", "ParticipationRatio"): 3.0 for i in range(6)}
    assert [*rank_collapses(evidence({**numbers, ("up@4", "ParticipationRatio"): 1.0}))] == []


def test_one_of_few_features_has_no_more_directions():
    numbers = {(f"{i}", "ParticipationRatio"): 6.0 for i in range(4)}
    numbers |= {("3", "ParticipationRatio"): 1.0}
    assert len([*rank_collapses(evidence(numbers))]) == 1
    numbers |= {("3", "ParameterNorm.bias"): 0.2, ("3", "ParameterRMS.bias"): 0.2}
    assert [*rank_collapses(evidence(numbers))] == []


def test_an_output_that_is_the_same_for_all_rows_is_named_first():
    numbers = {(f"h.{i}", "OutputRMS"): 1.0 for i in range(4)}
    numbers |= {(f"h.{i}", "ParticipationRatio"): np.nan if i > 1 else 4.0 for i in range(4)}
    (found,) = rank_collapses(evidence(numbers))
    assert (found.module, found.kind) == ("h.2", "rank_collapse")
    numbers |= {(f"h.{i}", "ParticipationRatio"): np.nan for i in range(4)}
    assert [*rank_collapses(evidence(numbers))] == []  # a batch of one row


@pytest.mark.parametrize(("norm", "is_told"), [(0.8, False), (6.4, True)], ids=["one", "many"])
def test_of_one_output_nothing_is_said_though_no_bias_tells_how_many_there_are(norm, is_told):
    numbers = {}
    for i, size in enumerate([8.0, 8.0, 1.0]):
        numbers[str(i), "ParticipationRatio"] = size
        numbers[str(i), "WeightNorm"] = norm if i == 2 else 6.4
        numbers[str(i), "ParameterRMS.weight"] = 0.1
    found = [one.module for one in rank_collapses(evidence(numbers))]
    assert found == (["2"] if is_told else [])
