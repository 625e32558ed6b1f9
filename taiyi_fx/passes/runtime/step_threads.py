"""The threads that run forwards of one step, and the one whose forwards are read."""

from __future__ import annotations

from threading import get_ident

SEVERAL = (
    "forwards ran in several threads at once: this step is left out, and from the next on those of "
    "the thread that calls track are read alone"
)
NOT_OF_TRACK = (
    "its forwards ran in another thread than those of earlier steps: this step is left out, and "
    "from the next on they are read"
)


class StepThreads:
    """Decides whose training forwards are read, where several threads run the model.

    A step belongs to the thread that calls ``track``, if that thread runs forwards itself. Which
    one that is shows at ``track`` only, so forwards that come before are judged by the last step:
    the thread that tracked it comes first, at the beginning the one that instruments. Threads that
    ran forwards beside it, as a server does that answers while the model trains, are plain from
    then on. Where the tracking thread runs no forward, as with a pool of workers, all are read.

    Attributes:
        has_beside: Whether forwards were left unread, as they ran beside those of a step.
    """

    def __init__(self) -> None:
        self.has_beside = False
        self._owner = get_ident()
        self._has_owner_begun = False
        self._beside: set[int] = set()
        self._read: set[int] = set()
        self._unread: set[int] = set()

    def may_read(self) -> bool:
        """True if a forward that this thread begins is to be read."""
        thread = get_ident()
        if thread in self._beside or (self._has_owner_begun and thread != self._owner):
            self._unread.add(thread)
            return False
        return True

    def leave_unread(self) -> None:
        """Notes a forward of this thread that cannot be read, as another is under way."""
        self._unread.add(get_ident())

    def begin(self) -> bool:
        """Notes that a forward of this thread is read.

        Returns:
            Whether what was read before was another thread's, and is to be forgotten.
        """
        thread = get_ident()
        self._read.add(thread)
        if thread != self._owner:
            return False
        self._has_owner_begun = True
        others = self._read - {thread}
        self._unread |= others
        self._read = {thread}
        return bool(others)

    def end_step(self, under_way: int) -> str | None:
        """Gives the step to this thread, which tracks; returns why it cannot be read, if so.

        Args:
            under_way: The thread in which a forward runs that is read; 0 if none does.
        """
        thread = get_ident()
        read, unread = self._read, self._unread
        # What a forward still brings that another thread began would be the next step's.
        self._read = {under_way} - {0, thread}
        self._unread = set()
        self._has_owner_begun = False
        if thread not in read | unread:
            if read or not unread:
                return None
            self._beside.clear()
            return NOT_OF_TRACK
        self._owner = thread
        others = (read | unread) - {thread}
        self.has_beside |= bool(others)
        self._beside = (self._beside | others) - {thread}
        return SEVERAL if thread in unread or read != {thread} else None
