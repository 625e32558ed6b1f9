"""Numbers of the user's own become columns of one series, each as it was given."""

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.step.logged import check_name_and_mode, folded, logged


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


def test_numbers_of_micro_batches_are_one_and_others_stay():
    waits = {"is_of_next": True}
    columns = [
        logged("loss", torch.tensor(1.0, dtype=torch.bfloat16), 3, "train", **waits),
        logged("reward", 5, 3, "train", **waits),
        logged("val_loss", 1.0, 2, "eval"),
        logged("loss", 2, 3, "train", **waits),
        logged("val_loss", 9.0, 2, "eval"),
        logged("loss", 4.5, 3, "train", **waits),
    ]
    found = [(c.of[0][1], c.values.item()) for c in folded(columns)]
    assert found == [("loss", 2.5), ("reward", 5), ("val_loss", 1.0), ("val_loss", 9.0)]


def test_a_loss_of_several_micro_batches_has_one_record_a_step():
    model = taiyi_fx.instrument(nn.Linear(3, 2), {"": ["LossSpike"]})
    for step in range(2):
        for micro in range(4):
            model(torch.randn(2, 3)).sum().backward()
            model.monitor.log("loss", torch.tensor(float(micro)))
        model.monitor.track(step)
    losses = [(r.step, r.value) for r in model.monitor.records if r.quantity == "loss"]
    assert losses == [(0, 1.5), (1, 1.5)]


def test_a_name_is_a_text_and_a_mode_one_of_two():
    check_name_and_mode("loss", None)
    check_name_and_mode("loss", "eval")
    with pytest.raises(TypeError, match="the name of a series is a text, not 3"):
        check_name_and_mode(3, None)
    with pytest.raises(ValueError, match="mode is 'train' or 'eval', not 'val'"):
        check_name_and_mode("loss", "val")
