"""Times by events of a device, which is made up here: its time passes where a test says so."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.reductions import device_clock
from taiyi_fx.reductions.device_clock import device_of, moment, seconds_between

CUDA = torch.device("cuda", 0)


class Device:
    """A stream in which each event stands two milliseconds after the one before."""

    def __init__(self):
        self.time, self.waited = 0.0, []

    def event(self):
        self.time += 2.0
        return Event(self, self.time)


class Event:
    device = CUDA

    def __init__(self, of, at):
        self.of, self.at = of, at

    def synchronize(self):
        self.of.waited.append(self.at)

    def elapsed_time(self, other):
        return other.at - self.at


@pytest.fixture
def device(monkeypatch):
    made = Device()
    monkeypatch.setattr(device_clock, "recorded_event", made.event)
    return made


class OnDevice(torch.Tensor):
    """A tensor that says it is on the device."""

    is_cpu, device = False, CUDA


def test_the_device_is_that_of_the_result():
    x = torch.ones(2)
    assert device_of([x, None]) == device_of(None) == torch.device("cpu")
    assert device_of({"y": x.as_subclass(OnDevice)}) == CUDA
    with pytest.raises(ValueError, match="on a CPU or a CUDA device alone"):
        device_of(x.to("meta"))


def test_the_host_is_not_waited_for_and_the_device_only_later(device):
    assert seconds_between(5, 1_500_000_005, torch.device("cpu")) == (1.5,)
    later = seconds_between(moment(), moment(), CUDA)
    assert device.waited == []
    assert later() == (pytest.approx(2e-3),)
    assert device.waited == [4.0]


def test_moments_without_an_event_have_a_reason(device, monkeypatch):
    first = moment()
    monkeypatch.setattr(device_clock, "recorded_event", lambda: None)
    for ends in ((first, moment()), (moment(), first)):
        with pytest.raises(ValueError, match="no event of cuda:0 stands at its begin"):
            seconds_between(*ends, CUDA)()
    with pytest.raises(ValueError, match="no event of cuda:1"):
        seconds_between(first, first, torch.device("cuda", 1))()


def test_without_a_device_no_event_is_made():
    if not torch.cuda.is_initialized():
        assert device_clock.recorded_event() is None


def test_old_events_are_let_go(device, monkeypatch):
    monkeypatch.setattr(device_clock, "_MOST", 3)
    monkeypatch.setattr(device_clock, "_EVENTS", {})
    moments = [moment() for _ in range(5)]
    assert list(device_clock._EVENTS) == moments[2:]


def test_a_forward_and_its_backward_do_not_wait_for_the_device(device, monkeypatch):
    for module in ("spans", "backward_time"):
        monkeypatch.setattr(f"taiyi_fx.reductions.{module}.device_of", lambda result: CUDA)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.Tanh()), nn.Linear(3, 1))
    cfg = {"0": ["ForwardTime", "BackwardTime"], "0.0": ["ForwardTime", "BackwardTime"]}
    watched = taiyi_fx.instrument(model, cfg, strict=True)
    watched(torch.randn(4, 3)).sum().backward()
    assert device.waited == []
    watched(torch.randn(4, 3)).sum().backward()  # a second micro-batch adds its own
    watched.monitor.track(0)
    found = {m: {q: v[0] for q, v in of.items()} for m, of in watched.monitor.get_output().items()}
    # Two milliseconds from each event to the next: those of the inner module are within the outer.
    assert found["0.0"]["ForwardTime"] == pytest.approx(2 * 2e-3)
    assert found["0"]["ForwardTime"] == pytest.approx(2 * 6e-3)
    assert found["0"]["BackwardTime"] > found["0.0"]["BackwardTime"] > 0
    assert device.waited
