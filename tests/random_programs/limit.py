"""A limit of time, for what may never end."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooLong(BaseException):
    """Time is up; no ``except Exception`` keeps it from ending what runs."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises `TooLong` in the body after some seconds of work, or many more of waiting.

    In the main thread only.
    """

    def ring(number: int, frame: FrameType | None) -> None:
        where = [f.name for f in traceback.extract_stack(frame) if "/taiyi_fx/" in f.filename]
        raise TooLong("never ends" + (f", in {where[0]}" if where else ""))

    clocks = (
        (signal.SIGPROF, signal.ITIMER_PROF, seconds),
        (signal.SIGALRM, signal.ITIMER_REAL, 20 * seconds),
    )
    before = [signal.signal(number, ring) for number, _, _ in clocks]
    for _, timer, limit in clocks:
        signal.setitimer(timer, limit, 1.0)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(clocks, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)
