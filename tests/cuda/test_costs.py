"""The time of a call on a device is that of its kernels, and its memory that of its tensors."""

import pytest
import torch
from torch import nn

import taiyi_fx

CYCLES = 30_000_000
"""Some 20 ms; how long they take depends on the clock, which a device sets as it likes."""


class Sleeps(nn.Module):
    """Takes a device some time, and the host none.

    Attributes:
        span: What the device recorded before and after it, the last time.
    """

    span: tuple[torch.cuda.Event, torch.cuda.Event]

    def forward(self, x):
        self.span = begin, end = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        begin.record()
        torch.cuda._sleep(CYCLES)
        end.record()
        return x * 2


def test_times_are_those_of_the_device_and_bytes_those_of_what_is_kept(device):
    if not device.is_cuda:
        pytest.skip("of a CPU tests/quantities/stock has these")
    model = nn.Sequential(Sleeps(), nn.Linear(16, 16)).to(device.kind)
    cfg = {"0": ["ForwardTime"], "1": ["ForwardTime", "BackwardTime", "SavedBytes"]}
    watched = taiyi_fx.instrument(model, cfg)
    for step in range(3):
        x = torch.randn(64, 16, device="cuda", requires_grad=True)
        watched(x).sum().backward()
        watched.monitor.track(step)
    found = watched.monitor.get_output()
    begin, end = model[0].span
    seconds = begin.elapsed_time(end) / 1e3
    # The first step follows the data, too.
    assert seconds < found["0"]["ForwardTime"][2] < seconds * 1.5
    assert 0 < found["1"]["ForwardTime"][2] < seconds / 2
    assert 0 < found["1"]["BackwardTime"][2] < seconds / 2
    assert found["1"]["SavedBytes"][2] == x.nbytes
