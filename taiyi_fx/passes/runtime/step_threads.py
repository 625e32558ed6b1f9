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
    """Decides which thread's training forwards are read, where several run the model.

    A step belongs to the thread that calls ``track``, if that thread runs forwards itself. Which
    one that is shows at ``track`` only, so earlier forwards are judged by the last step: the thread
    that tracked it comes first, at the beginning the one that instruments. Threads that ran
    forwards beside it, such as a server's that answers while the model trains, are not read from
    then on. Where the tracking thread runs no forward, as with a pool of workers, all are read.

    Attributes:
        has_beside: True if forwards were not read, as they ran beside those of a step.
        read: The threads of this step whose forwards were read.
        unread: Those whose forwards were not.
    """

    def __init__(self) -> None:
        self.has_beside = False
        self._owner = get_ident()
        self._has_owner_begun = False
        self._beside: set[int] = set()
        self.read: set[int] = set()
        self.unread: set[int] = set()

    def may_read(self) -> bool:
        """True if a forward that this thread begins is to be read."""
        thread = get_ident()
        if thread in self._beside or (self._has_owner_begun and thread != self._owner):
            self.unread.add(thread)
            return False
        return True

    def leave_unread(self) -> None:
        """Records that a forward of this thread cannot be read, as another is under way."""
        self.unread.add(get_ident())

    def begin(self) -> bool:
        """Records that a forward of this thread is read.

        Returns:
            True if the readings so far are another thread's, and have to be dropped.
        """
        thread = get_ident()
        self.read.add(thread)
        if thread != self._owner:
            return False
        self._has_owner_begun = True
        others = self.read - {thread}
        self.unread |= others
        self.read = {thread}
        return bool(others)

    def end_step(self, under_way: int) -> str | None:
        """Ends the step for this thread, which tracks it; returns why it has no readings, if so.

        Args:
            under_way: The thread whose forward is being read; 0 if none is.
        """
        thread = get_ident()
        read, unread = self.read, self.unread
        # Later readings of a forward that another thread began would belong to the next step.
        self.read = {under_way} - {0, thread}
        self.unread = set()
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
