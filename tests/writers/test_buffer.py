"""Items that wait to be stored: how many, and which are refused."""

import pytest
import torch

import taiyi_fx
from taiyi_fx.records.record import Block, Event, Record
from taiyi_fx.writers import Batch, EpochEnd, Store, buffer
from tests.writers.runs import FORMATS, numbers, opened

both = pytest.mark.parametrize("kind", FORMATS)


@both
def test_a_step_of_more_than_64_bits_is_told_and_the_rest_stored(kind, tmp_path):
    writer = opened(kind, tmp_path)
    blocks = [Block(s, "train", (("a", "q"),), [1.0]) for s in (2**63, 1)]
    with pytest.raises(ValueError, match="the step 9223372036854775808 has more than 64 bits"):
        writer.write(Batch(0, blocks, events=[Event(-(2**63) - 1, "warning", "", "")]))
    with pytest.raises(ValueError, match=f"the epoch {2**70} has more than 64 bits"):
        writer.write(Batch(0, ended=EpochEnd(0, 2**70, ())))
    with pytest.raises(ValueError, match=f"the epoch {2**71} has more than 64 bits"):
        writer.write(numbers(1, [1.0], epoch=2**71))
    writer.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q") == ([1], [1])


def test_a_tensor_too_large_for_a_file_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(buffer, "_LARGEST", 100)
    writer = opened(Store, tmp_path)
    with pytest.raises(ValueError, match="a tensor at step 3 takes 104 bytes"):
        writer.write(Batch(0, records=[Record(3, "a", "t", torch.ones(26))]))
    writer.close()


@both
def test_many_numbers_do_not_wait_for_the_clock(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(buffer, "FULL", 10)
    monkeypatch.setattr(buffer, "SLICE", 4)
    writer = opened(kind, tmp_path)
    for step in range(4):
        writer.write(numbers(step, [1.0, 2.0, 3.0]))
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.to_numpy()["step"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    writer.close()
