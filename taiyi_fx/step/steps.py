"""The steps of a training: the one that forwards are read for, and what is due at each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from taiyi_fx.passes.runtime.install import Installation
from taiyi_fx.schedule import NEVER
from taiyi_fx.step.due import DueTable, DueWork
from taiyi_fx.step.ranks.cadence import Cadence
from taiyi_fx.warning import WarnOnce


class Steps:
    """Counts the steps of a training, and prepares forwards for what is due at the next one.

    Args:
        due: The work due at each step.
        installation: Makes the readings of forwards.
        first: The step of the first forward.

    Attributes:
        next: The step that the next forward is read for.
        cadence: The wishes to read more densely, and to stop; joined ranks have one together.
        is_paused: True if nothing is read.
        idle_until: No step from the next one up to this one has any work; it is no later than the
            next one where that is not known.
    """

    def __init__(self, due: DueTable, installation: Installation, first: int) -> None:
        self.cadence = Cadence()
        self.is_paused = False
        self._due = due
        self._installation = installation
        self._last: int | None = None
        self._also: int | None = None
        # The work of all steps in a range that the next one is in.
        self._work: DueWork | None = None
        self._since = self._until = self.idle_until = first
        self._warn = WarnOnce()
        self.prepare(first)

    @property
    def raised(self) -> range:
        """Steps at which every adaptive schedule is due."""
        return self._due.raised

    @property
    def are_new(self) -> bool:
        """True if none was tracked: the number of the first is not known yet."""
        return self._last is None

    def due_at(self, step: int) -> DueWork:
        """The work due at a step."""
        if self._work is not None and self._since <= step < self._until:
            return self._work
        return self._due.at(step)

    def prepare(self, step: int) -> None:
        """Makes this the next step."""
        self.next, self._also = step, None
        if self.is_paused or self._since <= step < self._until:
            return
        self._work = self._due.at(step)
        self._installation.set_due(self._work.readings)
        self._since, self._until = step, self._due.next_change(step)
        self.idle_until = self._until if self._work.is_nothing else step

    def _forget(self) -> None:
        """Has the work of the next step looked up again."""
        self._work = None
        self._until = self.idle_until = self._since

    def pass_over(self, step: int) -> bool:
        """Ends a step at which nothing is due, if nothing is at the one after it, either.

        Nearly all steps of a training are such, and all that is left to do is to count them.

        Returns:
            True if that is so; else nothing was done.
        """
        is_idle = self.cadence.is_idle and self._also is None
        if step != self.next or step + 1 >= self.idle_until or not is_idle:
            return False
        self.next, self._last = step + 1, step
        return True

    def is_prepared(self, step: int) -> bool:
        """True if forwards since the last step were read for this one."""
        return step in (self.next, self._also)

    def is_read(self, step: int) -> bool:
        """True if forwards since the last step were read for all that is due at this one.

        So it is, too, of a training that begins at another step, where the same is due.
        """
        needed = self._due.at(step).readings
        return self.is_prepared(step) or needed <= self._due.at(self.next).readings

    @contextmanager
    def at(self, step: int) -> Iterator[None]:
        """Reads forwards in the body for this step instead of the next one."""
        before = self.next
        if step != before:
            self._installation.end_step()
        self.prepare(step)
        try:
            yield
        finally:
            if self.next == step:
                self.prepare(before)
                self._also = step

    def end(self, step: int, *, is_alone: bool) -> None:
        """Drops what was read for a step, and prepares the one after it.

        Args:
            step: The step.
            is_alone: True if no other rank has to grant what is wished of the cadence.
        """
        self._installation.end_step()
        if not self.cadence.is_idle:
            self.raise_cadence(step, is_alone=is_alone)
        self.prepare(step + 1)

    def count(self, step: int) -> bool:
        """Makes this the last step; true if it was so already."""
        is_again, self._last = step == self._last, step
        return is_again

    def raise_cadence(self, step: int, *, is_alone: bool) -> None:
        """Makes adaptive schedules due after a step, if that was wished and all ranks know."""
        if self.cadence.is_idle:
            return
        if is_alone:
            self.cadence.grant(self.cadence.wished, end=self.cadence.wishes_end)
        granted = self.cadence.take()
        if granted:
            self._due.raise_after(step, granted)
            self._forget()

    def start_at(self, step: int) -> None:
        """Begins anew at a step, as another training does."""
        self._last = None
        self._due.raised = NEVER
        self._forget()
        self.cadence.clear()
        self._installation.end_step()
        self.prepare(step)

    def pause(self) -> None:
        """Reads nothing until `resume`."""
        self.is_paused = True
        self._forget()
        self._installation.set_due(frozenset())

    def resume(self) -> None:
        """Reads again after `pause`."""
        self.is_paused = False
        self.prepare(self.next)

    def warn_of_order(self, step: int) -> None:
        """Warns of a step that was tracked before, or of one before that."""
        if self._last is None or step > self._last or self.is_prepared(step):
            return
        if step == self._last:
            self._warn.of(
                "twice",
                f"track({step}) was called twice: call it once for each optimizer step, with a "
                "number that counts them over all epochs; what the second call finds is recorded "
                f"at step {step} too",
            )
        else:
            self._warn.of(
                "backwards",
                f"track({step}) was called after track({self._last}): steps count up over the "
                "whole training, over all epochs. To train anew with this monitor, call "
                "monitor.clean_mem() and monitor.start_at(0) first; to track a step out of order, "
                "run its forward inside `with monitor.at(step):`",
            )
