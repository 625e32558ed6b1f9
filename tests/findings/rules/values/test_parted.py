"""Siblings that part: the one that is named is of those that moved."""

import numpy as np
import pytest

from taiyi_fx.findings.rules.values.parted import first_to_part

STEPS = np.arange(40)


def leaving(step, powers=8.0):
    return np.where(step <= STEPS, powers * (STEPS - step + 1) / (40 - step), 0.0)


def table(*rows):
    return np.stack([np.broadcast_to(row, 40).astype(float) for row in rows])


def test_of_many_that_leave_the_first_is_named_and_not_those_that_stay():
    found = first_to_part(table(0.0, 0.1, leaving(20), leaving(10), leaving(15)))
    assert (found.row, found.stayed) == (3, {0, 1})
    assert found.column == 14  # from where on it is 20 times what it was
    assert found.powers == pytest.approx(8.0)


def test_of_those_that_leave_at_about_the_same_step_the_first_in_order_is_named():
    assert first_to_part(table(0.0, 0.0, leaving(11), leaving(10), leaving(11))).row == 2


@pytest.mark.parametrize(
    "rows",
    [
        (0.0, 0.0, 0.0, 0.0, leaving(10)),
        (leaving(10), leaving(10), leaving(10), leaving(10), 0.0),
        (0.0, 0.0, leaving(10, 0.5), leaving(10, 0.5)),
        (0.0, 3.0, leaving(10), leaving(12)),
        (0.0, 0.0, leaving(39), leaving(39)),
    ],
    ids=["one is an outlier", "one stays", "a little", "never alike", "at the last step"],
)
def test_otherwise_none_is(rows):
    assert first_to_part(table(*rows)) is None


def test_where_some_are_on_their_way_all_go():
    """As gradients that fade layer by layer, the more the farther from the loss."""
    rows = [leaving(10, powers) for powers in (1.9, 1.6, 1.5, 1.0, 0.2, 0.0)]
    assert first_to_part(table(*rows)) is None
    assert first_to_part(table(*(row for row in rows if row[-1] != 1.0))) is not None
