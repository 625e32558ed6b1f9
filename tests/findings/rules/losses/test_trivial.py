"""Losses that fall to nothing at once."""

import numpy as np
import pytest

from taiyi_fx.findings import LossGraph
from taiyi_fx.findings.rules.losses.trivial import trivial_losses
from tests.findings.given import evidence, knowing

GUESS = float(np.log(10))


def found_for(values, classes=10, steps=None):
    known = evidence({("", "loss"): values}, steps)
    return [*trivial_losses(knowing(known, classes={"loss": classes}))]


def falling(until, n=100, end=1e-4):
    return np.geomspace(GUESS, end, until).tolist() + [end] * (n - until)


def test_a_loss_that_is_nothing_after_few_steps_is_told():
    (found,) = found_for(falling(12))
    assert (found.kind, found.severity, found.module) == ("trivial_loss", "warning", "")
    assert found.step < 12


@pytest.mark.parametrize(
    "values",
    [falling(40), falling(12, end=0.01), falling(12, n=20), [1e-4] * 100, [*falling(12), 1.0]],
    ids=["slower", "not to nothing", "few", "trained before", "rises again"],
)
def test_what_is_learnt_in_some_time_is_none(values):
    assert found_for(values) == []


def test_of_no_classes_and_of_later_steps_nothing_is_known():
    assert found_for(falling(12), classes=0) == []
    assert found_for(falling(12), steps=range(500, 600)) == []


@pytest.mark.parametrize(
    ("end", "is_judged", "is_told"), [(1e-4, True, True), (0.1, True, False), (1e-4, False, False)]
)
def test_what_fools_its_judge_every_time_is_told(end, is_judged, is_told):
    values = np.maximum(np.log(2) * np.exp(-np.arange(200) / 10), end)
    known = evidence({("", "loss of the generator"): values})
    graphs = {"loss of the generator": LossGraph(is_judged=is_judged)}
    known = knowing(known, classes={"loss of the generator": 2}, loss_graphs=graphs)
    found = [*trivial_losses(known)]
    assert [one.kind for one in found] == ["trivial_loss"] * is_told
    assert all("judge" in one.advice for one in found)
