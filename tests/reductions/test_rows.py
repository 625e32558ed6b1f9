"""A tensor's type to compute in, and its rows by features."""

import pytest
import torch

from taiyi_fx.reductions import Moments, Norm, as_matrix


def test_half_precision_is_reduced_in_a_wider_type():
    x = torch.full((4096,), 300.0, dtype=torch.float16)  # its squares overflow half precision
    assert Norm().measure(x)[0] == 300 * 64
    assert Moments().measure(x)[1] == 300
    assert Moments().measure(x)[1].dtype == torch.float64


@pytest.mark.parametrize(("shape", "axis", "rows"), [
    ((), "auto", (1, 1)), ((5,), "auto", (1, 5)), ((2, 3, 4), "auto", (6, 4)),
    ((2, 3, 4, 5), "auto", (40, 3)), ((2, 3, 4, 5), -1, (24, 5)), ((2, 3, 4), 1, (8, 3)),
])  # fmt: skip
def test_a_tensor_as_rows_by_features(shape, axis, rows):
    assert as_matrix(torch.zeros(shape), axis).shape == rows


def test_rows_are_those_of_the_moved_axis_and_not_a_reinterpretation():
    x = torch.arange(24).reshape(2, 3, 4)
    assert torch.equal(as_matrix(x, 1)[:, 2], x[:, 2].reshape(-1))


def test_a_tensor_without_the_axis_of_features_and_one_without_features_are_told_in_words():
    with pytest.raises(
        ValueError, match=r"features is -3, which a tensor of shape \(5, 3\) has not"
    ):
        as_matrix(torch.zeros(5, 3), -3)
    with pytest.raises(ValueError, match=r"a tensor of shape \(4, 0\) has no features"):
        as_matrix(torch.zeros(4, 0), -1)
