"""Inputs of evaluation that are scaled otherwise than those of training."""

from dataclasses import replace

import numpy as np
import pytest

from taiyi_fx.findings import Distribution, Evidence, GivenInputs, Watched, find
from taiyi_fx.findings.rules.losses.evaluation_inputs import evaluation_inputs

FACTS = ("", "", "")
TRAINED = [(0.0, 1.0), (0.05, 0.95), (-0.04, 1.02), (0.0, 1.0)]


def known(evaluated, trained=TRAINED, val_loss=1.0, name="x"):
    series = [
        Watched.made(("", "loss"), FACTS, np.arange(100), np.geomspace(2.3, 0.2, 100)),
        Watched.made(("", "val_loss"), FACTS, np.arange(9, 100, 10), np.full(10, val_loss)),
    ]
    of = {name: [Distribution(*one) for one in evaluated]}
    inputs = GivenInputs({"x": [Distribution(*one) for one in trained]}, of)
    return replace(Evidence.of(series), inputs=inputs)


@pytest.mark.parametrize(
    "evaluated",
    [(0.48, 0.25), (0.0, 60.0), (1.0, 1.0), (-1.2, 0.9)],
    ids=["of 0 to 1", "not scaled", "not centred", "centred twice"],
)
def test_another_scale_or_centre_beside_a_high_loss_is_told(evaluated):
    (found,) = evaluation_inputs(known([evaluated] * 3))
    mean, deviation = evaluated
    assert (found.kind, found.severity) == ("evaluation_inputs", "warning")
    assert (
        f"'x' of the model has a mean of {mean:.3g} and a deviation of {deviation:.3g}"
        in found.text
    )


@pytest.mark.parametrize(
    "given",
    [
        {"evaluated": [(0.1, 0.9)] * 3},
        {"evaluated": [(0.5, 0.25)]},
        {"evaluated": [(0.5, 0.25), (0.0, 1.0)]},
        {"evaluated": [(0.5, 0.25)] * 3, "val_loss": 0.2},
        {"evaluated": [(0.5, 0.25)] * 3, "name": "z"},
        {"evaluated": [(0.0, 1.5)] * 3, "trained": [(0.0, 1.0), (0.0, 2.9)]},
    ],
    ids=["alike", "one", "once alike", "a loss as low", "another input", "training varies"],
)
def test_others_are_not(given):
    assert [*evaluation_inputs(known(**given))] == []


def test_a_gap_is_beneath_it():
    first, *others = find(known([(0.48, 0.25)] * 3, val_loss=2.4))
    assert first.kind == "evaluation_inputs"
    assert [one.kind for one in first.consequences] == ["evaluation_gap"]
    assert all(one.kind != "evaluation_gap" for one in others)
