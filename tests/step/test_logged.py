"""Numbers of the user's own become columns of one series, each as it was given."""

import numpy as np
import pytest
import torch

from taiyi_fx.step.logged import check_name_and_mode, logged


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (0.5, torch.float64),
        (True, torch.float64),
        (np.float32(0.5), torch.float64),
        (3, torch.int64),
        (np.array(0.5), torch.float64),
        (np.array(3), torch.int64),
        (torch.tensor(0.5), torch.float32),
        (torch.ones(1, 1, dtype=torch.bfloat16, requires_grad=True), torch.bfloat16),
    ],
)
def test_a_number_is_a_column_of_one_series(value, dtype):
    column = logged("loss", value, 3, "train")
    assert (column.step, column.mode, column.of) == (3, "train", (("", "loss"),))
    assert column.values.shape == (1,)
    assert column.values.dtype == dtype
    assert column.values.item() == torch.as_tensor(value).item()
    assert not column.values.requires_grad


def test_a_tensor_that_changes_afterwards_was_logged_as_it_was():
    loss = torch.ones(())
    column = logged("loss", loss, 0, "train")
    loss.mul_(7)
    assert column.values.item() == 1


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (torch.ones(4), ValueError, r"'loss' has the shape \(4,\).*reduce it first"),
        (torch.tensor(1 + 1j), TypeError, "'loss': the value has to be a real number, not tensor"),
        (1 + 1j, TypeError, r"'loss': the value has to be a number, not \(1\+1j\)"),
        ("low", TypeError, "'loss': the value has to be a number, not 'low'"),
        (10**30, ValueError, "'loss': 1000.* has more than 64 bits"),
    ],
)
def test_what_is_no_number_is_refused(value, error, text):
    with pytest.raises(error, match=text):
        logged("loss", value, 0, "train")


def test_a_name_is_a_text_and_a_mode_one_of_two():
    check_name_and_mode("loss", None)
    check_name_and_mode("loss", "eval")
    with pytest.raises(TypeError, match="the name of a series is a text, not 3"):
        check_name_and_mode(3, None)
    with pytest.raises(ValueError, match="mode is 'train' or 'eval', not 'val'"):
        check_name_and_mode("loss", "val")
