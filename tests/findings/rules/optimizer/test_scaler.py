"""Steps that a scaler of losses skips."""

import numpy as np
import pytest

from taiyi_fx.findings import find
from taiyi_fx.findings.rules.optimizer.scaler import overflow, skipped_steps
from tests.findings.given import evidence

NAN, INF = np.nan, np.inf


def test_gradients_that_a_scaler_skips_are_a_note():
    numbers = {("a", "OutputGradRMS"): [INF, INF, 1, INF, 1], ("a", "WeightNorm"): [1.0] * 5}
    found = evidence(numbers)
    assert skipped_steps(found) == [0, 1, 3]
    (note,) = overflow(found, [0, 1, 3])
    assert (note.severity, note.module, note.step) == ("note", "a", 0)
    assert "as at 3 steps in all" in note.text


def test_gradients_that_reach_the_parameters_are_no_such_steps():
    numbers = {("a", "OutputGradRMS"): [1, NAN], ("a", "WeightNorm"): [1, 1, NAN, NAN]}
    assert skipped_steps(evidence(numbers)) == []


def test_of_the_last_step_nobody_knows_yet():
    numbers = {("a", "OutputGradRMS"): [1, NAN], ("a", "WeightNorm"): [1, 1]}
    assert [found.severity for found in find(evidence(numbers))] == ["note"]
    numbers["a", "WeightNorm"] = [1, 1, NAN]
    assert [found.severity for found in find(evidence(numbers))] == ["alert"]


def test_where_nothing_but_gradients_is_known_a_nan_is_no_skipped_step():
    numbers = {("a", "OutputGradRMS"): [1, NAN, 1]}
    assert [found.kind for found in find(evidence(numbers))] == ["non_finite"]


@pytest.mark.parametrize(("left", "severity"), [(24, "alert"), (23, "note")])
def test_a_scaler_that_only_skips_is_an_alert(left, severity):
    gradients = np.where(np.arange(40) < 40 - left, 1.0, NAN)
    numbers = {("a", "OutputGradRMS"): gradients, ("a", "WeightNorm"): 1.0}
    found = [f for f in find(evidence(numbers)) if f.kind in ("only_skips", "overflow")]
    assert [f.severity for f in found] == [severity]
