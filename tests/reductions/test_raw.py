"""Copies of tensors and of their signs."""

import pytest
import torch

from taiyi_fx.reductions import Parts, Raw, Sample, Sign


@pytest.mark.parametrize(("bound", "shape"), [(None, (5, 3)), (7, (2, 3)), (15, (5, 3)), (2, (2,))])
def test_a_bound_keeps_the_leading_rows_that_fit(bound, shape):
    x = torch.randn(5, 3)
    (kept,) = Raw(max_elements=bound).measure(x)
    assert kept.shape == shape
    assert torch.equal(kept.reshape(-1), x.reshape(-1)[: kept.numel()])


@pytest.mark.parametrize(
    ("bound", "kept"),
    [(None, [0, 1, 2, 3, 4]), (7, [0, 3]), (9, [0, 2, 4]), (15, [0, 1, 2, 3, 4])],
)
def test_rows_of_a_sample_are_evenly_spaced(bound, kept):
    x = torch.randn(5, 3)
    (found,) = Sample(max_elements=bound).measure(x)
    assert torch.equal(found, x[kept])


def test_of_rows_that_do_not_fit_a_sample_has_evenly_spaced_elements():
    (found,) = Sample(max_elements=2).measure(torch.arange(12.0).reshape(2, 6))
    assert found.tolist() == [0, 6]


def test_of_long_rows_there_are_parts_from_the_beginning_to_the_end():
    x = torch.arange(12.0).reshape(2, 6)
    for given in (x, x.reshape(2, 2, 3), x.T.contiguous().T):
        (found,) = Parts(max_elements=4).measure(given)
        assert found.tolist() == [[0, 1], [10, 11]]
    assert Parts(max_elements=1).measure(x)[0].tolist() == [[0]]
    assert Parts(max_elements=3).measure(torch.arange(9.0))[0].tolist() == [0, 3, 6]
    assert torch.equal(Parts(max_elements=12).measure(x)[0], x)


def test_parts_are_of_64_rows_where_there_are_as_many():
    x = torch.arange(96 * 1728.0).reshape(96, 1728)
    (found,) = Parts(max_elements=4096).measure(x)
    assert found.shape == (48, 85)  # of each second row
    at = found[:, 0].long()
    assert (at // 1728).tolist() == [*range(0, 96, 2)]
    assert (at % 1728).diff().unique().tolist() == [(1728 - 85) // 47]
    assert found[-1, -1] <= x[94, -1]
    short = torch.randn(500, 8)
    assert torch.equal(Parts(max_elements=1024).measure(short)[0], short[::4])


def test_rows_of_other_shapes_are_joined_flattened():
    (joined,) = Raw().merge((torch.zeros(2, 3),), (torch.ones(1, 4),))
    assert joined.tolist() == [0] * 6 + [1] * 4


def test_signs_are_bytes_and_nan_has_none():
    x = torch.tensor([-2.0, -0.0, 3.0, torch.nan, -torch.inf])
    (kept,) = Sign().measure(x)
    assert kept.dtype == torch.int8
    assert kept.tolist() == [-1, 0, 1, 0, -1]
    assert Sign().scale((kept,), -1.0)[0].tolist() == [1, 0, -1, 0, 1]


def test_a_bound_is_positive():
    with pytest.raises(ValueError, match="max_elements must be a positive whole number, not 0"):
        Raw(max_elements=0)


def test_scalars_of_any_number_of_micro_batches_are_joined():
    raw = Raw()
    state = raw.measure(torch.tensor(0.0))
    for i in range(1, 4):
        state = raw.merge(state, raw.measure(torch.tensor(float(i))))
    assert state[0].tolist() == [0, 1, 2, 3]
    halves = [raw.merge(raw.measure(x), raw.measure(x)) for x in torch.tensor([1.0, 2.0])]
    assert raw.merge(*halves)[0].tolist() == [1, 1, 2, 2]
    assert raw.merge(raw.measure(torch.tensor(0.0)), halves[0])[0].tolist() == [0, 1, 1]
