"""Drawn steps of training."""

from hypothesis import given

from taiyi_fx.testing import training_steps


@given(training_steps(max_steps=3, max_rows=5))
def test_steps_are_micro_batches_and_end_where_something_is_due(steps):
    assert 1 <= len(steps) <= 3
    assert all(1 <= step.rows <= 5 and min(step.sizes) > 0 for step in steps)
    assert steps[-1].is_due
