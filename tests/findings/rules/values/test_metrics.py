"""Logged numbers that are not finite and are no loss."""

import numpy as np
import pytest

from taiyi_fx.findings import Evidence, Watched, find
from tests.findings.given import evidence

VALUES = np.array([1.0, np.nan, 0.5, np.inf])


def logged(name, values=VALUES):
    steps = np.arange(len(values))
    one = Watched.made(("", name), ("", "", ""), steps, values)
    return Evidence.of([*evidence({("a", "WeightNorm"): np.ones(4)}).series, one])


def test_a_metric_that_has_no_value_for_a_batch_is_a_note_in_its_own_words():
    (found,) = find(logged("auc"))
    assert (found.kind, found.severity, found.step) == ("undefined_metric", "note", 1)
    assert found.text == "step 1: auc, which you log, is nan, as are 2 of its 4 numbers"
    (found,) = find(logged("auc", VALUES[:3]))
    assert found.text == "step 1: auc, which you log, is nan"


def test_a_loss_is_told_as_the_first_nan():
    assert [found.kind for found in find(logged("my_Loss"))] == ["non_finite"]


@pytest.mark.parametrize("name", ["auc", "loss"])
def test_later_numbers_are_looked_at_behind_a_metric_alone(name):
    steps = np.arange(80)
    values = np.where(steps == 3, np.nan, 1.0)
    growing = evidence({("fc", "WeightNorm"): 2.0 ** (steps / 4)}).series
    found = find(Evidence.of([*growing, Watched.made(("", name), ("", "", ""), steps, values)]))
    assert any(one.kind == "growth" for one in found) == (name == "auc")
