"""The evidence of a window is that of all records, thinned."""

import numpy as np
import pytest

from taiyi_fx import Records
from taiyi_fx.findings import Evidence
from taiyi_fx.watch.window import Window
from tests.watch.given import block, describe, training


def window(records):
    made = Window(describe)
    for each in records.blocks():
        made.add(each)
    return made


def test_of_a_short_training_it_is_the_evidence_of_all_records():
    records = training([2.0 / (1 + i) for i in range(100)])
    one, all_of_it = window(records).evidence(), Evidence.of_records(records, describe)
    assert [s[:5] for s in one.series] == [s[:5] for s in all_of_it.series]
    for mine, other in zip(one.series, all_of_it.series, strict=True):
        np.testing.assert_array_equal(mine.steps, other.steps)
        np.testing.assert_array_equal(mine.values, other.values)


def test_of_a_long_one_it_is_bounded_and_begins_at_the_beginning():
    (loss,) = window(training(np.arange(2000.0).tolist())).evidence().logged.losses
    assert len(loss.steps) <= 128
    assert loss.values[:3].tolist() == [0.0, 1.0, 2.0]
    assert loss.values[-3:].tolist() == [1997.0, 1998.0, 1999.0]


@pytest.mark.parametrize("every", [1, 5])
def test_sizes_of_steps_are_those_of_one_step_however_many_are_left_out(every):
    records = Records()
    for step in range(0, 1000 * every, every):
        records.extend([block(step, "UpdateRatio.weight", [0.001 * every])])
    (short,) = Evidence.of_records(records[:50], describe).series
    (thin,) = window(records).evidence().series
    assert len(thin.steps) <= 128
    np.testing.assert_allclose(thin.values, 0.001)
    np.testing.assert_allclose(short.values, 0.001)


def test_a_series_that_comes_with_different_others_is_one():
    made = Window(describe)
    for step, n in enumerate((2, 3, 2)):
        made.add(block(step, "OutputRMS", [float(step)] * n))
    series = {s.module: s.steps.tolist() for s in made.evidence().series}
    assert series == {"layer.0": [0, 1, 2], "layer.1": [0, 1, 2], "layer.2": [1]}


@pytest.mark.parametrize(
    ("quantity", "value", "is_bad"),
    [
        ("OutputRMS", float("nan"), True),
        ("OutputRMS", 1e300, False),
        ("NonFinite", 2, True),
        ("NonFinite", 0, False),
        ("InputCovCondition", float("inf"), False),
        ("loss", float("inf"), True),
    ],
)
def test_a_number_is_bad_where_it_should_be_finite(quantity, value, is_bad):
    made = Window(describe)
    assert made.add(block(0, quantity, [value])).is_bad is is_bad


def test_cleared_it_has_nothing():
    made = window(training([1.0] * 5))
    made.clear()
    assert made.evidence().series == ()
