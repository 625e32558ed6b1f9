"""What a reference is given."""

import pytest
import torch
from torch import nn

from taiyi_fx.testing import Seen


def seen(x, module, **rest):
    return Seen(x=x, y=2 * x, g_x=None, g_y=None, module=module, **rest)


def test_rows_of_a_convolution_are_its_channels_at_each_place():
    x = torch.arange(24.0).reshape(2, 3, 2, 2)
    rows = seen(x, nn.Conv2d(3, 3, 1)).rows("x")
    assert rows.shape == (8, 3)
    assert rows[5].tolist() == x[1, :, 0, 1].tolist()


def test_rows_of_a_linear_layer_are_its_last_axis():
    x = torch.arange(24.0).reshape(2, 3, 4)
    assert torch.equal(seen(x, nn.Linear(4, 4)).rows("y"), 2 * x.reshape(6, 4))


def test_the_option_feature_axis_wins():
    x = torch.arange(24.0).reshape(2, 3, 4)
    rows = seen(x, nn.Linear(4, 4), options={"feature_axis": 1}).rows("x")
    assert torch.equal(rows, x.transpose(1, 2).reshape(8, 3))


def test_rows_of_a_gradient_that_is_not_there_are_an_error():
    with pytest.raises(ValueError, match="there is no g_x"):
        seen(torch.ones(2, 2), nn.ReLU()).rows("g_x")


def test_the_precision_is_that_of_the_type_that_sums_are_made_in():
    given = seen(torch.ones(1), nn.ReLU(), dtypes={"x": torch.float64, "y": torch.bfloat16})
    assert given.eps("x") == torch.finfo(torch.float64).eps
    assert given.eps("y") == torch.finfo(torch.float32).eps
