"""Background work: one thread that computes costly quantities, in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.passes.probes.slots import in_tensors
from taiyi_fx.step.transfer import Outcome
from taiyi_fx.step.work import Statistic, Work

_BYTES = 2**30
"""The bytes that may wait for the thread, over all steps of a monitor, before `submit` blocks."""


Run = Callable[[int, Sequence[Work]], Outcome]
"""Computes the work of a step."""


class Job:
    """Work under way in the thread.

    Args:
        future: The outcome to come.
        works: The work.
        size: The bytes that it holds.
    """

    def __init__(self, future: Future[Outcome], works: Sequence[Work], size: int) -> None:
        self._future = future
        self._series = [work.series for work in works]
        self._process = os.getpid()
        self.size = size

    @property
    def is_done(self) -> bool:
        """True if the outcome has come; also in a forked process, where it will never come."""
        return self._is_lost or self._future.done()

    def outcome(self) -> Outcome:
        """The outcome; waits for it."""
        if self._is_lost:
            why = "it was being computed when the process was forked"
            return Outcome(failures=dict.fromkeys(self._series, why))
        return self._future.result()

    def wait(self) -> None:
        """Waits until it is done."""
        if not self._is_lost:
            wait([self._future])

    @property
    def _is_lost(self) -> bool:
        return self._process != os.getpid()


class BackgroundWorker:
    """The work that one monitor has submitted to the one thread of this process.

    Args:
        run: Computes work.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._queue: deque[Job] = deque()

    def submit(self, step: int, works: Sequence[Work]) -> Job:
        """Submits the work of a step, whose states may be on any device.

        They are decomposed on the host.
        """
        size = sum(part.nbytes for state in _states(works) for part in state)
        self._make_room(size)
        moved, arrival = _on_host(works)
        job = Job(_submitted(self._run, step, moved, arrival), works, size)
        self._queue.append(job)
        return job

    def _make_room(self, size: int) -> None:
        while self._queue:
            held = sum(job.size for job in self._queue)
            if not self._queue[0].is_done and held + size <= _BYTES:
                return
            self._queue.popleft().wait()


def _submitted(
    run: Run, step: int, works: Sequence[Work], arrival: Sequence[torch.Event]
) -> Future[Outcome]:
    try:
        return _thread().submit(_after, arrival, run, step, works)
    except RuntimeError:  # the interpreter is ending, and accepts no more work for its threads
        future: Future[Outcome] = Future()
        future.set_result(_after(arrival, run, step, works))
        return future


def _after(
    arrival: Sequence[torch.Event],
    run: Run,
    step: int,
    works: Sequence[Work],
) -> Outcome:
    for event in arrival:
        event.synchronize()
    return run(step, works)


def _on_host(works: Sequence[Work]) -> tuple[list[Work], list[torch.Event]]:
    """The work with its states on their way to the host, and the events of their arrival.

    On the device a decomposition would delay the next step.
    """
    if all(part.is_cpu for state in _states(works) for part in state):
        return list(works), []
    copies: dict[int, State] = {}
    devices: set[torch.device] = set()
    moved: list[Work] = []
    for work in works:
        found: dict[str, Statistic] = {}
        for name, of_name in (work.statistics or {}).items():
            key = id(of_name.state)
            if key not in copies:
                state = in_tensors(of_name.state)
                devices.update(t.device for t in state if t.device.type == "cuda")
                copies[key] = tuple(map(_to_host, state))
            found[name] = of_name._replace(state=copies[key])
        statistics = None if work.statistics is None else found
        moved.append(work._replace(statistics=statistics))
    return moved, [torch.cuda.current_stream(device).record_event() for device in devices]


def _states(works: Sequence[Work]) -> Iterable[State]:
    """The states of all statistics, each once."""
    read = (work.statistics.values() for work in works if work.statistics is not None)
    return {id(s.state): in_tensors(s.state) for every in read for s in every}.values()


def _to_host(x: Tensor) -> Tensor:
    if x.device.type == "meta":  # holds no data: its value is reported as missing
        return x
    return x.to("cpu", non_blocking=x.device.type == "cuda")


_pool: ThreadPoolExecutor | None = None


def _thread() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(1, thread_name_prefix="taiyi_fx")
    return _pool


def _forget(*_: Any) -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)  # a forked process has no threads
