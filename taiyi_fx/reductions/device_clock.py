"""A clock for calls, by the host, or by events in the stream of the device that computes them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import torch

from taiyi_fx.passes.ir import Numbers
from taiyi_fx.passes.structure import tensors_in

_MOST = 2**16
"""Events that are kept: those at begins of calls that have not ended are among the last."""

_EVENTS: dict[int, Any] = {}


def moment() -> int:
    """This moment in nanoseconds; in the stream of a device in use an event stands for it."""
    now, event = time.perf_counter_ns(), recorded_event()
    if event is not None:
        _EVENTS[now] = event
        if len(_EVENTS) > _MOST:
            del _EVENTS[next(iter(_EVENTS))]
    return now


def recorded_event() -> Any:
    """An event at this place of the current stream; None without a device, or in a CUDA graph."""
    if not torch.cuda.is_initialized() or torch.cuda.is_current_stream_capturing():
        return None
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def device_of(result: Any) -> torch.device:
    """The device that computes a call: that of its result, the host if it has no tensor.

    Raises:
        ValueError: It is a device that has no clock here.
    """
    other = next((x.device for x in tensors_in(result) if not x.is_cpu), torch.device("cpu"))
    if other.type not in ("cpu", "cuda"):
        raise ValueError(
            f"its result is on {other}, which computes after the call has returned; "
            "calls are timed on a CPU or a CUDA device alone"
        )
    return other


def seconds_between(first: int, last: int, device: torch.device) -> Numbers | Callable[[], Numbers]:
    """The seconds between two moments; of a CUDA device a function that waits for it first.

    That function raises a ValueError if no event of the device stands at one of them.
    """
    if device.type == "cpu":
        return ((last - first) * 1e-9,)
    return functools.partial(_elapsed, _EVENTS.get(first), _EVENTS.get(last), device)


def _elapsed(begun: Any, ended: Any, device: torch.device) -> Numbers:
    if begun is None or ended is None or not begun.device == ended.device == device:
        raise ValueError(
            f"no event of {device} stands at its begin and its end: the call is the first to use "
            "it, is part of a CUDA graph, or the current device is another"
        )
    ended.synchronize()
    return (begun.elapsed_time(ended) * 1e-3,)
