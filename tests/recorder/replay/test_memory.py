"""Memory of checkpoints."""

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
