"""The time of a call on a device is that of its kernels, and its memory that of its tensors."""

import pytest
import torch
from torch import nn

import taiyi_fx

SECONDS = 0.02


class Sleeps(nn.Module):
    """Takes a device some time, and the host none."""

    def __init__(self, device):
        super().__init__()
        self.cycles = cycles(SECONDS) if device.is_cuda else 0

    def forward(self, x):
        if self.cycles:
            torch.cuda._sleep(self.cycles)
        return x * 2


def cycles(seconds):
    """How many of a GPU's take so long."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(1_000_000)
    begin.record()
    torch.cuda._sleep(10_000_000)
    end.record()
    end.synchronize()
    return round(10_000_000 * seconds / (begin.elapsed_time(end) / 1e3))


def test_times_are_those_of_the_device_and_bytes_those_of_what_is_kept(device):
    if not device.is_cuda:
        pytest.skip("of a CPU tests/quantities/stock has these")
    model = nn.Sequential(Sleeps(device), nn.Linear(16, 16)).to(device.kind)
    cfg = {"0": ["ForwardTime"], "1": ["ForwardTime", "BackwardTime", "SavedBytes"]}
    watched = taiyi_fx.instrument(model, cfg)
    for step in range(3):
        x = torch.randn(64, 16, device="cuda", requires_grad=True)
        watched(x).sum().backward()
        watched.monitor.track(step)
    found = watched.monitor.get_output()
    # The first step follows the data, too.
    assert SECONDS * 0.9 < found["0"]["ForwardTime"][2] < SECONDS * 1.5
    assert 0 < found["1"]["ForwardTime"][2] < SECONDS / 2
    assert 0 < found["1"]["BackwardTime"][2] < SECONDS / 2
    assert found["1"]["SavedBytes"][2] == x.nbytes
