"""Memory of checkpoints."""

import errno
import os

import pytest
import torch

from taiyi_fx.recorder.replay.memory import CheckpointMemory


def filled(memory, *tensors):
    memory.begin()
    return {str(i): memory.allocate(str(i), x).copy_(x) for i, x in enumerate(tensors)}


def test_memory_is_used_again():
    memory = CheckpointMemory()
    first = filled(memory, torch.ones(3))
    memory.give_back(first)
    second = filled(memory, torch.zeros(3))
    assert second["0"] is first["0"]
    assert filled(memory, torch.zeros(3))["0"] is not first["0"]


def test_memory_of_another_shape_or_type_is_not():
    memory = CheckpointMemory()
    for other in (torch.ones(4), torch.ones(3, dtype=torch.float64)):
        memory.give_back(filled(memory, torch.ones(3)))
        assert torch.equal(filled(memory, other)["0"], other)


def test_in_a_folder_tensors_are_a_files_and_leave_none_behind(tmp_path):
    memory = CheckpointMemory(tmp_path / "states")
    x = torch.randn(3, 5)
    found = filled(memory, x, torch.empty(0), torch.arange(2))
    assert torch.equal(found["0"], x)
    assert found["0"].shape == x.shape
    assert [*(tmp_path / "states").iterdir()] == []


@pytest.mark.parametrize("has_fallocate", [True, False])
def test_a_file_has_its_room_on_the_disk_before_it_is_mapped(tmp_path, monkeypatch, has_fallocate):
    if not has_fallocate:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    sizes = []
    monkeypatch.setattr(os, "unlink", lambda name: sizes.append(os.stat(name).st_blocks * 512))
    x = torch.randn(1000, 700)
    assert torch.equal(filled(CheckpointMemory(tmp_path), x)["0"], x)
    assert sizes[0] >= x.nbytes


def test_a_full_disk_is_an_error_and_leaves_no_file_behind(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    memory = CheckpointMemory(tmp_path)
    memory.begin()
    with pytest.raises(OSError, match="No space left"):
        memory.allocate("x", torch.ones(3))
    assert [*tmp_path.iterdir()] == []
