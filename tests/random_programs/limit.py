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
    """Raises `TooLong` in the body after some seconds; in the main thread only."""

    def ring(number: int, frame: FrameType | None) -> None:
        where = [f.name for f in traceback.extract_stack(frame) if "/taiyi_fx/" in f.filename]
        raise TooLong("never ends" + (f", in {where[0]}" if where else ""))

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
