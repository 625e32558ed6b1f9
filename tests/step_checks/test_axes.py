"""The axis of samples, and what follows when they are exchanged."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from taiyi_fx.step_checks.axes import are_close, follows, keeps_others, sample_axes, second_axes
from taiyi_fx.step_checks.untried import Untried


def zeros(*shapes):
    return {f"x{i}": torch.zeros(shape) for i, shape in enumerate(shapes)}


@pytest.mark.parametrize(
    ("shapes", "size", "axes"),
    [
        ([(5, 3), (5,)], 5, [0, 0]),
        ([(5, 3, 5), (5,)], 5, [0, 0]),
        ([(7, 5, 2), (5,)], 5, [1, 0]),  # time comes first
        ([(5, 3), ()], 5, [0]),  # a number is of no sample
        ([(5, 3), (1,)], 5, [0]),
    ],
)
def test_the_axis_of_samples(shapes, size, axes):
    found = sample_axes(zeros(*shapes))
    assert found.size == size
    assert [*found.of.values()] == axes


@pytest.mark.parametrize(
    ("shapes", "why"),
    [
        ([], "no tensors"),
        ([(5, 3), (2, 9)], "no axis of samples in common"),
        ([(1, 3), (1,)], "no axis of samples in common"),
        ([(5, 5), (5,)], "as many places as samples"),
        ([(7, 5), (5, 7)], "more than one"),
    ],
)
def test_an_axis_that_is_not_known(shapes, why):
    with pytest.raises(Untried, match=why):
        sample_axes(zeros(*shapes))


def test_a_second_axis_is_one_that_all_have():
    assert second_axes(zeros((7, 5, 2), (7, 5))).size == 5
    assert second_axes(zeros((7, 5, 2), (5,))) is None
    assert second_axes(zeros((7, 1), (7, 1))) is None


ORDER = torch.tensor([2, 0, 1])


@given(st.sampled_from([(3, 4), (4, 3), (2, 3, 5), (12, 2), (2, 6)]), st.integers(0, 1))
def test_samples_follow_their_order_along_any_axis_that_holds_them(shape, part):
    x = torch.arange(0.0, torch.Size(shape).numel()).reshape(shape)
    axis = next(i for i, n in enumerate(shape) if n % 3 == 0)
    others = shape[axis] // 3
    parts = (3, others) if part else (others, 3)
    view = x.unflatten(axis, parts)
    y = view.index_select(axis + (not part), ORDER).reshape(shape)
    assert follows(x, y, ORDER, 0.0)
    assert follows(x, x, ORDER, 0.0)  # of no samples, as positions are
    assert not follows(x, y + torch.arange(shape[-1]), ORDER, 0.0)


def test_others_are_kept():
    x = torch.rand(3, 4)
    y = x.clone()
    y[1] += 1
    assert keeps_others(x, y, 3, 1, 0.0)
    assert not keeps_others(x, y, 3, 0, 0.0)
    assert not keeps_others(x, y[:2], 3, 1, 0.0)
    assert keeps_others(x.reshape(-1), y.reshape(-1), 3, 1, 0.0)


def test_of_similarities_of_all_to_all_a_row_and_a_column_may_change():
    x = torch.rand(3, 3)
    y = x.clone()
    y[1], y[:, 1] = 0.0, 0.0
    assert keeps_others(x, y, 3, 1, 0.0)
    y[0, 2] += 1
    assert not keeps_others(x, y, 3, 1, 0.0)


def test_closeness_is_relative_to_the_largest_number():
    x = torch.tensor([1e6, 1.0, float("nan"), float("inf")])
    y = torch.tensor([1e6, 1.5, float("nan"), float("inf")])
    assert are_close(x, y, 1e-6)
    assert not are_close(x, y, 1e-7)
    assert not are_close(x, x[:2], 1.0)
    assert not are_close(torch.tensor([1]), torch.tensor([2]), 1.0)
    assert are_close(torch.zeros(0), torch.zeros(0), 0.0)
