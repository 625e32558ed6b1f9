"""Losses, those of evaluation, and other numbers are told apart by mode and name."""

import numpy as np
import pytest

from taiyi_fx.findings import Evidence, LossGraph, Watched
from tests.findings.given import evidence, facts_of, knowing


def test_losses_are_logged_numbers_of_that_name():
    found = evidence({("", "loss"): 1, ("fc", "OutputRMS"): 1}).logged
    assert [one.quantity for one in found.losses] == ["loss"]


@pytest.mark.parametrize("name", ["val_loss", "loss/test", "eval loss", "held-out loss"])
def test_a_loss_of_evaluation_is_known_by_its_name(name):
    found = evidence({("", name): 1, ("", "loss"): 1}).logged
    assert [one.quantity for one in found.losses] == ["loss"]
    assert [one.quantity for one in found.losses_of_evaluation] == [name]


@pytest.mark.parametrize("name", ["interval_loss", "latest loss"])
def test_a_word_within_another_is_none(name):
    assert [one.quantity for one in evidence({("", name): 1}).logged.losses] == [name]


def test_all_else_that_is_logged_is_a_metric():
    every = [("", "loss"), ("", "LearningRate"), ("fc", "OutputRMS")]
    assert not evidence(dict.fromkeys(every, 1)).logged.metrics


def test_a_loss_has_what_is_known_of_it():
    graph = LossGraph()
    found = knowing(evidence({("", "loss"): 1}), loss_graphs={"loss": graph, "later": graph}).logged
    (loss,) = found.losses
    assert found.of_loss(loss).graph is graph
    assert found.graphs == [(loss, graph)]
    assert found.known_graphs == [graph, graph]  # that of a loss without a number, too


STEPWISE = np.geomspace(2.0, 0.1, 60) * (1 + 0.2 * np.sin(np.arange(60)))


@pytest.mark.parametrize(
    ("numbers", "steps", "is_part"),
    [
        (STEPWISE.reshape(3, 20).mean(1), [19, 39, 59], True),
        (STEPWISE[[9, 30, 59]], [9, 30, 59], True),
        (STEPWISE[::-1].reshape(3, 20).mean(1), [19, 39, 59], False),
        (STEPWISE.reshape(3, 20).mean(1) * 1.1, [19, 39, 59], False),
        (STEPWISE[[9, 30, 59]], [8, 29, 58], False),
        (STEPWISE, range(60), False),
    ],
    ids=["means", "some", "others", "larger", "of other steps", "as many"],
)
def test_the_means_of_another_loss_are_no_loss_of_their_own(numbers, steps, is_part):
    known = {"loss": (range(60), STEPWISE), "epoch loss": (steps, numbers)}
    series = [
        Watched.made(("", name), facts_of(name), np.array(at), np.array(values))
        for name, (at, values) in known.items()
    ]
    losses = [one.quantity for one in Evidence.of(series).logged.losses]
    assert losses == ["loss", "epoch loss"][: 2 - is_part]
