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


def close_at_exit(one: Closeable) -> None:
    """Has an object closed when the process ends, if it still exists."""
    _OPEN.add(one)


def discard(one: Closeable) -> None:
    """Leaves out an object, which was closed."""
    _OPEN.discard(one)


@atexit.register
def close_all() -> None:
    """Closes all; an error of one is printed."""
    for one in list(_OPEN):
        try:
            one.close()
        except BaseException:  # noqa: BLE001 - the others are closed all the same
            traceback.print_exc()
