"""Background work: one thread that computes costly quantities, and on a GPU most, in order."""

from __future__ import annotations

import itertools
import operator
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from taiyi_fx.passes.ir import State
from taiyi_fx.passes.probes.slots import in_tensors
from taiyi_fx.records.record import Series
from taiyi_fx.step.host import Copies
from taiyi_fx.step.transfer import Outcome
from taiyi_fx.step.work import Batch, Work

_BYTES = 2**30
"""The bytes that may wait for the thread, over all steps of a monitor, before `submit` blocks."""


T = TypeVar("T")
Item = TypeVar("Item", Work, Batch)

Run = Callable[[int, Sequence[Work], Sequence[Batch]], Outcome]
"""Computes the work of a step."""


class Job:
    """Work under way in the thread.

    Args:
        future: The outcome to come.
        series: The names of its values.
        size: The bytes that it holds.
    """

    def __init__(self, future: Future[Outcome], series: Sequence[Series], size: int) -> None:
        self._future = future
        self._series = series
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

    def submit(self, step: int, works: Sequence[Work], batches: Sequence[Batch] = ()) -> Job:
        """Submits the work of a step, whose states may be on any device.

        They are decomposed on the host.
        """
        states = _states([*works, *batches])
        size = sum(part.nbytes for state in states.values() for part in state)
        self._make_room(size)
        sent = _Sent(works, batches, states)
        future = _submitted(lambda: self._run(step, *sent.arrived()))
        job = Job(future, series_of(works, batches), size)
        self._queue.append(job)
        return job

    def in_order(self, call: Callable[[], None]) -> None:
        """Calls a function when all work submitted so far is done, which may be now."""
        if all(job.is_done for job in self._queue):
            call()
        else:
            _submitted(call)

    def _make_room(self, size: int) -> None:
        while self._queue:
            held = sum(job.size for job in self._queue)
            if not self._queue[0].is_done and held + size <= _BYTES:
                return
            self._queue.popleft().wait()


class _Sent:
    """Work whose states are on their way to the host; it holds none on a device.

    Args:
        works: The work.
        batches: Work whose statistics are stacked.
        states: Its states, by their identity.
    """

    def __init__(
        self, works: Sequence[Work], batches: Sequence[Batch], states: Mapping[int, State]
    ) -> None:
        parts = [part for state in states.values() for part in state]
        # What holds no data stays: its value is reported as missing.
        self._nowhere = [part if part.device.type == "meta" else None for part in parts]
        self._copies = Copies([part for part in parts if part.device.type != "meta"])
        self._lengths = [len(state) for state in states.values()]
        places = {key: i for i, key in enumerate(states)}
        self._works = [_without_states(work, places) for work in works]
        self._batches = [_without_states(batch, places) for batch in batches]

    def arrived(self) -> tuple[list[Work], list[Batch]]:
        """The work with its states on the host; waits for them."""
        found = iter(self._copies.tensors())
        parts = iter([next(found) if part is None else part for part in self._nowhere])
        states = [tuple(itertools.islice(parts, n)) for n in self._lengths]
        works = [_with_states(item, places, states) for item, places in self._works]
        return works, [_with_states(item, places, states) for item, places in self._batches]


def series_of(works: Sequence[Work], batches: Sequence[Batch]) -> list[Series]:
    """The names of the values of all work."""
    return [*map(_series_of, works), *itertools.chain.from_iterable(map(_series_of, batches))]


_series_of = operator.attrgetter("series")


def _without_states(item: Item, places: Mapping[int, int]) -> tuple[Item, Mapping[str, int]]:
    """Work without its states, and the place of each of them."""
    found = {name: places[id(s.state)] for name, s in (item.statistics or {}).items()}
    return _with_states(item, dict.fromkeys(found, 0), ((),)), found


def _with_states(item: Item, places: Mapping[str, int], states: Sequence[State]) -> Item:
    if item.statistics is None:
        return item
    found = {name: s._replace(state=states[places[name]]) for name, s in item.statistics.items()}
    return item._replace(statistics=found)


def _submitted(call: Callable[[], T]) -> Future[T]:
    try:
        return _thread().submit(call)
    except RuntimeError:  # the interpreter is ending, and accepts no more work for its threads
        future: Future[T] = Future()
        future.set_result(call())
        return future


def _states(works: Iterable[Work | Batch]) -> dict[int, State]:
    """The states of all statistics, each once."""
    read = (work.statistics.values() for work in works if work.statistics is not None)
    return {id(s.state): in_tensors(s.state) for every in read for s in every}


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
