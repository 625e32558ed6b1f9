"""What only a GPU runs is called as torch has it: no line waits for a GPU to be wrong."""

import contextlib
from unittest import mock

import pytest
import torch

from tests.cuda.device import Device


@pytest.fixture
def cuda(monkeypatch):
    """torch.cuda's own signatures, without a device."""
    names = "current_stream Stream stream synchronize set_sync_debug_mode CUDAGraph graph".split()
    made = {name: mock.create_autospec(getattr(torch.cuda, name)) for name in names}
    made["current_stream"].return_value = mock.create_autospec(torch.cuda.Stream, instance=True)
    for name, replacement in made.items():
        monkeypatch.setattr(torch.cuda, name, replacement)
    return made


@pytest.fixture
def device(cuda):
    return Device("cuda")


def test_a_side_stream_begins_behind_the_current_one_which_waits_for_it(device, cuda):
    outer, inner = cuda["current_stream"].return_value, cuda["Stream"].return_value
    with device.side_stream():
        inner.wait_stream.assert_called_once_with(outer)
        outer.wait_stream.assert_not_called()
    cuda["stream"].assert_called_once_with(inner)
    outer.wait_stream.assert_called_once_with(inner)


def test_waiting_is_allowed_again_after_an_error(device, cuda):
    with contextlib.suppress(RuntimeError), device.no_waiting():
        cuda["synchronize"].assert_called_once_with()
        raise RuntimeError
    modes = [call.args for call in cuda["set_sync_debug_mode"].call_args_list]
    assert modes == [("error",), ("default",)]


def test_what_is_captured_is_replayed(device, cuda):
    ran = []
    replay = device.captured(lambda: ran.append(1))
    cuda["graph"].assert_called_once_with(cuda["CUDAGraph"].return_value)
    replay()
    assert ran == [1]
    cuda["CUDAGraph"].return_value.replay.assert_called_once_with()
