"""The place at which numbers part: a difference that grows with the steps as rounding does."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.cli.parting import parted_numbers


def run_of(folder, values):
    model = taiyi_fx.instrument(nn.Linear(1, 1), {"": ["WeightNorm"]}, run=folder)
    for step, value in enumerate(values):
        model(torch.ones(1, 1))
        model.monitor.log("v", value)
        model.monitor.track(step)
    model.monitor.close()
    return taiyi_fx.open_run(folder)


@pytest.mark.parametrize(
    ("other", "step"),
    [
        ([1.0, 1 + 2e-5, 1 + 3e-5, 1 + 4e-5], None),
        ([1 + 2e-5, 1.0, 1.0, 1.0], 0),
        ([1.0, 1 + 3e-5, 1.0, 1.0], 1),
        ([1.0, 1.0, 1.0, float("nan")], 3),
        ([1.0, 1.0, float("inf"), 1.0], 2),
    ],
)
def test_as_much_more_is_allowed_as_steps_went_by(tmp_path, other, step):
    with run_of(tmp_path / "one", [1.0] * 4) as one, run_of(tmp_path / "two", other) as two:
        names = {name: name for name in one.spans() if name.quantity == "v"}
        found = parted_numbers(one, two, names, 1.0001e-5)
    assert [parted.step for parted in found] == ([] if step is None else [step])


def test_what_is_nothing_in_both_is_no_difference(tmp_path):
    values = [0.0, float("nan"), float("inf"), -float("inf")]
    with run_of(tmp_path / "one", values) as one, run_of(tmp_path / "two", values) as two:
        names = {name: name for name in one.spans() if name.quantity == "v"}
        assert parted_numbers(one, two, names, 0.0) == []
