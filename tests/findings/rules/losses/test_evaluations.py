"""The loss of evaluation beside that of training."""

import numpy as np
import pytest

from taiyi_fx.findings import Evidence, Watched, find
from taiyi_fx.findings.rules.losses.evaluations import (
    evaluation_gaps,
    overfitting,
    undefined_evaluations,
)

FACTS = ("", "", "")
FALLING = np.geomspace(2.3, 0.05, 200)
TURNING = [2.0, 1.5, 1.2, 1.0, 0.9, 0.8, 0.85, 0.9, 1.3, 1.4, 1.5, 1.6]


def known(evaluated, trained=FALLING, name="loss", mode="eval", of_training="loss", rest=()):
    ends = np.linspace(0, len(trained), len(evaluated) + 1)[1:].astype(int) - 1
    return Evidence.of(
        [
            Watched.made(("", of_training), FACTS, np.arange(len(trained)), np.array(trained)),
            *(Watched.made(("", one), FACTS, np.arange(9), np.full(9, 0.1)) for one in rest),
            Watched.made(("", name), FACTS, ends, np.array(evaluated, float), mode),
        ]
    )


@pytest.mark.parametrize(
    ("name", "mode", "shown"),
    [
        ("loss", "eval", "'loss' in evaluation"),
        ("val_loss", "train", "'val_loss'"),
        ("loss/test", "train", "'loss/test'"),
    ],
)
def test_what_turns_while_training_goes_on_is_told(name, mode, shown):
    (found,) = overfitting(known(TURNING, name=name, mode=mode))
    assert (found.kind, found.severity, found.module) == ("overfitting", "warning", "")
    assert found.step == 99  # the sixth of twelve evaluations
    assert found.text.startswith(f"{shown} is lowest at step 99")


def test_a_small_rise_is_a_note():
    (found,) = overfitting(known([2.0, 1.0, 0.8, 0.8, 0.85, 0.9, 0.95, 0.95]))
    assert found.severity == "note"


@pytest.mark.parametrize(
    ("evaluated", "trained"),
    [
        ([2.0, 1.5, 1.2, 1.0, 0.9, 0.8, 0.75, 0.7], FALLING),
        ([2.0, 1.0, 0.8, 0.8, 0.82, 0.79, 0.83, 0.81], FALLING),
        ([2.0, 1.0, 0.8, 0.9, 1.2, 1.3, 0.8, 0.8], FALLING),
        ([2.0, 0.8, 1.2, 1.3], FALLING),
        (TURNING, np.full(200, 2.3)),
        ([-value for value in TURNING], FALLING),
    ],
    ids=["falls on", "stays", "comes back", "few", "training does not fall", "below 0"],
)
def test_what_does_not_turn_is_none(evaluated, trained):
    assert [*overfitting(known(evaluated, trained))] == []


def test_what_never_learns_beside_a_training_that_does_is_told():
    (found,) = evaluation_gaps(known([2.4, 2.6, 3.0, 3.5, 4.0]))
    assert (found.kind, found.severity, found.value) == ("evaluation_gap", "warning", 2.4)
    assert "'loss' begins at 2." in found.text


@pytest.mark.parametrize(
    ("evaluated", "trained"),
    [
        ([2.2, 2.0, 1.8, 1.9, 2.0], FALLING),
        ([230.0, 150.0, 100.0, 80.0, 70.0], FALLING),
        ([2.4, 2.4, 2.4, 2.4], FALLING),
        ([2.3, 2.3, 2.3, 2.3, 2.3], np.full(200, 2.3)),
    ],
    ids=["learns a little", "a sum of samples", "few", "training does not fall"],
)
def test_what_learns_or_cannot_is_none(evaluated, trained):
    assert [*evaluation_gaps(known(evaluated, trained))] == []


def test_what_rises_from_the_first_evaluation_far_above_the_training_is_told():
    sharp = [2.3] * 5 + np.geomspace(2.3, 1e-3, 10).tolist() + [1e-3] * 185
    (found,) = evaluation_gaps(known([1.1, 1.8, 3.6, 4.4, 4.5, 4.2, 3.8, 3.4], sharp))
    assert (found.kind, found.severity, found.value) == ("evaluation_gap", "warning", 3.8)
    assert "is 1.1 in the first evaluation, beside 0.001 of 'loss'" in found.text
    (found,) = evaluation_gaps(known([1.5, 1.4, 1.7, 1.9, 2.2, 2.1, 2.3], sharp))
    assert "and 2.2 in the last ones" in found.text
    for evaluated, trained in (
        ([1.1, 1.2, 1.3, 1.3, 1.3, 1.4, 1.4, 1.4], sharp),
        ([1.1, 1.8, 3.6, 4.4, 4.5, 4.2, 1.4, 1.2], sharp),
        ([1.1, 1.8, 3.6, 4.4, 4.5, 4.2, 3.8, 3.4], FALLING),
    ):
        assert [*evaluation_gaps(known(evaluated, trained))] == []


def test_of_several_losses_of_training_it_is_beside_that_of_its_name_or_the_whole():
    of_name = known(TURNING, name="loss", rest=("kl_loss",))
    of_whole = known(TURNING, name="val_loss", of_training="train/loss", rest=("kl_loss",))
    for every in (of_name, of_whole):
        assert [one.kind for one in overfitting(every)] == ["overfitting"]
    assert [
        *overfitting(known(TURNING, name="val_loss", of_training="a_loss", rest=("b_loss",)))
    ] == []


@pytest.mark.parametrize(("name", "mode"), [("loss", "eval"), ("val_loss", "train")])
def test_a_loss_of_evaluation_that_is_nan_is_none_of_the_trainings(name, mode):
    values = np.array(TURNING)
    values[[3, 7]] = np.nan
    every = known(values, name=name, mode=mode)
    (found,) = undefined_evaluations(every)
    assert found.severity == "warning"
    assert found.text.endswith("is nan, as are 2 of its 12 numbers")
    kinds = {one.kind for one in find(every, strict=True)}
    assert kinds == {"undefined_evaluation", "overfitting"}


def test_a_loss_of_evaluation_is_no_loss_of_training_to_other_rules():
    every = known(
        [1.0, 1.0, 5.0, 50.0, 60.0, 60.0, 60.0, 60.0, 60.0], name="val_loss", mode="train"
    )
    assert "divergence" not in {one.kind for one in find(every, strict=True)}
    assert [one.quantity for one in every.logged.losses] == ["loss"]


@pytest.mark.parametrize(("times", "is_other"), [(1.0, False), (40.0, True)])
def test_a_loss_of_evaluation_of_another_scale_is_said_to_be_of_one(times, is_other):
    (found,) = evaluation_gaps(known(times * np.array([2.4, 2.5, 2.4, 2.6, 2.5, 2.4])))
    assert ("times what an untrained model costs" in found.text) == is_other
    assert ("another scale or unit" in found.advice) == is_other
