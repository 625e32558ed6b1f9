"""The end of the process: what is open then is closed, whatever becomes of the others."""

from __future__ import annotations

import atexit
import traceback
import weakref
from typing import Protocol


class Closeable(Protocol):
    """An object that has to be closed."""

    def close(self) -> None:
        """Closes it."""
        ...


_OPEN: weakref.WeakSet[Closeable] = weakref.WeakSet()
_under_way: list[None] = []
"""Not empty while all is closed."""


def close_at_exit(one: Closeable) -> None:
    """Has an object closed when the process ends, if it still exists."""
    _OPEN.add(one)


def discard(one: Closeable) -> None:
    """Leaves out an object, which was closed."""
    _OPEN.discard(one)


def is_process_ending() -> bool:
    """True while all is closed as the process ends."""
    return bool(_under_way)


@atexit.register
def close_all() -> None:
    """Closes all; an error of one is printed."""
    _under_way.append(None)
    for one in list(_OPEN):
        try:
            one.close()
        except BaseException:  # noqa: BLE001 - the others are closed all the same
            traceback.print_exc()
    _under_way.pop()
