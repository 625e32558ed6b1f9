"""The first step at which two runs differ, of any kind of values."""

import pytest
import torch

from taiyi_fx.records.record import Block, Record
from taiyi_fx.writers import Batch
from tests.cli.given_runs import both, cells
from tests.writers.runs import FORMATS, numbers, written


def test_several_values_of_a_step_are_compared_in_their_order(cli, tmp_path):
    def made(name, *values):
        return written(FORMATS[0], tmp_path / name, [numbers(3, [v]) for v in values])

    one = made("one", 1.0, 2.0)
    assert cli("compare", one, made("same", 1.0, 2.0))[0] == 0
    assert cells(cli("compare", one, made("turned", 2.0, 1.0))[1])[-1][-1] == "2 of 2"
    assert cells(cli("compare", one, made("less", 1.0))[1])[-1][4:] == ["2", "nothing", "1 of 2"]


@both
def test_tensors_are_compared_by_their_elements(cli, kind, tmp_path):
    def made(name, *tensors):
        records = [Record(step, "m", "t", x) for step, x in enumerate(tensors)]
        return written(kind, tmp_path / name, [Batch(0, records=records)])

    zeros, changed = torch.zeros(2, 3), torch.zeros(2, 3)
    changed[1, 0] = 0.5
    one = made("one", zeros, zeros)
    assert cli("compare", one, made("same", zeros, zeros))[0] == 0
    told = {
        "other": ([zeros, changed], ["1", "m", "t", "train", "[1, 0] 0.0", "[1, 0] 0.5", "1 of 2"]),
        "shape": ([zeros[0]], ["0", "m", "t", "train", "tensor 2 x 3", "tensor 3", "2 of 2"]),
        "fewer": ([zeros], ["1", "m", "t", "train", "tensor 2 x 3", "nothing", "1 of 2"]),
        "truth": ([zeros, zeros == 0], ["1", "m", "t", "train", "[0, 0] 0.0", "[0, 0] True", "1 of 2"]),
    }  # fmt: skip
    for name, (tensors, row) in told.items():
        code, out, _ = cli("compare", one, made(name, *tensors))
        assert (code, cells(out)[-1]) == (1, row)
    assert cli("compare", one, tmp_path / "other", "--atol", "0.5")[0] == 0
    block = Block(0, "train", (("m", "t"),), [0.0])
    number = written(kind, tmp_path / "number", [Batch(0, [block])])
    assert cells(cli("compare", one, number)[1])[-1][4:6] == ["tensor 2 x 3", "tensor"]


@both
def test_a_series_of_numbers_and_tensors_is_compared_by_both(cli, kind, tmp_path):
    def made(name, *values):
        records = [Record(step, "m", "q", x) for step, x in enumerate(values)]
        return written(kind, tmp_path / name, [Batch(0, records=records)])

    ones = torch.ones(2)
    one = made("one", 1.0, ones, 3.0)
    assert cli("compare", one, made("same", 1.0, ones, 3.0))[0] == 0
    told = {
        "tensor": ((1.0, ones * 2, 3.0), ["1", "[0] 1.0", "[0] 2.0", "1 of 1"]),
        "number": ((2.0, ones * 2, 3.0), ["0", "1", "2", "1 of 2"]),
        "last": ((1.0, ones, 4.0), ["2", "3", "4", "1 of 2"]),
        "numbers": ((1.0,), ["1", "tensor 2", "nothing", "1 of 1"]),
        "tensors": ((ones, ones, ones), ["0", "tensor", "tensor 2", "2 of 3"]),
    }
    for name, (values, row) in told.items():
        code, out, _ = cli("compare", one, made(name, *values))
        step, _, _, _, *rest = cells(out)[-1]
        assert (code, [step, *rest]) == (1, row)


@both
@pytest.mark.parametrize("value", [2**60, torch.tensor([2**60])])
def test_integers_are_compared_exactly_unless_a_tolerance_is_given(cli, kind, tmp_path, value):
    one, other = (
        written(kind, tmp_path / name, [Batch(0, records=[Record(0, "m", "q", x)])])
        for name, x in (("one", value), ("two", value + 1))
    )
    code, out, _ = cli("compare", one, other)
    assert (code, [text.split()[-1] for text in cells(out)[-1][4:6]]) == (
        1,
        ["1152921504606846976", "1152921504606846977"],
    )
    assert cli("compare", one, one)[0] == 0
    assert cli("compare", one, other, "--rtol", "1e-9")[0] == 0


@both
def test_steps_of_any_size_are_told_apart(cli, kind, tmp_path):
    def made(name, *values):
        steps = (-(2**62), 2**62, 2**62, 2**62 + 1)
        batches = [numbers(step, [x]) for step, x in zip(steps, values, strict=True)]
        return written(kind, tmp_path / name, batches)

    one = made("one", 1.0, 2.0, 3.0, 4.0)
    assert cli("compare", one, one)[0] == 0
    row = cells(cli("compare", one, made("two", 1.0, 2.0, 3.5, 4.0))[1])[-1]
    assert row == [str(2**62), "a", "q", "train", "3", "3.5", "1 of 4"]
