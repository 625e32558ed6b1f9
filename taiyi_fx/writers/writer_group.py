"""A monitor's writers: opened once, flushed at intervals; their errors never end training."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from taiyi_fx.writers.protocol import Batch, RunInfo, Writer

FLUSH_SECONDS = 5.0
"""The age of a batch from which the next `track` makes it durable."""


class WriterGroup:
    """The writers of one run.

    Args:
        strict: Raise exceptions of writers.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._is_elsewhere = False
        self._process = os.getpid()
        self._waiting: list[Writer] = []
        self._open: list[Writer] = []
        self._reported: set[tuple[int, str]] = set()
        self._failures: list[str] = []
        self._flushed = time.monotonic()
        self._delivery: _Delivery | None = None

    def __len__(self) -> int:
        return len(self._waiting) + len(self._open)

    @property
    def are_open(self) -> bool:
        """True if any were opened."""
        return bool(self._open)

    @property
    def are_to_flush(self) -> bool:
        """True if the last time is long enough ago."""
        return bool(self._open) and time.monotonic() - self._flushed >= FLUSH_SECONDS

    def add(self, writers: Iterable[Writer]) -> None:
        """Adds writers, which wait to be opened.

        Raises:
            TypeError: One is not a writer.
        """
        if isinstance(writers, str) or not isinstance(writers, Iterable):
            raise TypeError(f"writers is a list, as in [CSV(path)], not {writers!r}")
        for writer in writers:
            lacking = [m for m in ("open", "write", "flush", "close") if not hasattr(writer, m)]
            if isinstance(writer, type):
                raise TypeError(f"a writer belongs here, not its class: {writer.__name__}(...)")
            if lacking:
                raise TypeError(f"{writer!r} is not a writer: it has no {', no '.join(lacking)}")
            if not self._is_elsewhere:
                self._waiting.append(writer)

    def open(self, run: RunInfo, *, may_fail: bool = False) -> None:
        """Opens the waiting writers; one that fails is left out, and raises unless it may fail."""
        while self._waiting:
            writer = self._waiting.pop(0)
            if may_fail and not self._do(writer, lambda writer=writer: writer.open(run)):
                continue
            if not may_fail:
                writer.open(run)
            self._open.append(writer)

    def drop(self) -> None:
        """Closes and drops the writers, where another rank records."""
        self._is_elsewhere = True
        self._waiting.clear()
        self.close()

    def write(self, batch: Batch) -> None:
        """Writes a batch to all; after an interrupt, the rest of the earlier batch comes first.

        The batch that was written last is not written again.
        """
        if self._delivery is None or self._delivery.batch is not batch:
            self._deliver()
            self._delivery = _Delivery(batch)
        self._deliver()

    def flush(self, *, at_once: bool = False) -> None:
        """Flushes all, where the last time is long enough ago."""
        now = time.monotonic()
        if not at_once and now - self._flushed < FLUSH_SECONDS:
            return
        self._deliver()
        self._flushed = now
        self._each(self._open, lambda writer: writer.flush())

    def close(self) -> None:
        """Flushes and closes all, each once."""
        self._deliver()
        try:
            self._each(self._open, lambda writer: writer.flush())
        finally:
            self._each(list(self._open), self._close)

    def _close(self, writer: Writer) -> None:
        """Closes a writer; after an interrupt it still counts as open, and can be closed again."""
        try:
            writer.close()
        except Exception:
            self._open.remove(writer)
            raise
        self._open.remove(writer)

    def _deliver(self) -> None:
        """Writes the pending batch to the writers that do not have it."""
        delivery = self._delivery
        if delivery is not None and not delivery.is_done:
            self._each(self._open, delivery.write)
            delivery.is_done = True

    def pop_errors(self) -> list[str]:
        """The errors since the last call, each kind of each writer once, which are then dropped."""
        failures, self._failures = self._failures, []
        return failures

    def _each(self, writers: Iterable[Writer], action: Callable[[Writer], None]) -> None:
        """Runs an action on each, also after one failed; raises the first error at the end."""
        if os.getpid() != self._process:
            return  # a fork has no part in the run
        raised: BaseException | None = None
        for writer in writers:
            try:
                self._do(writer, lambda writer=writer: action(writer))
            except BaseException as error:  # noqa: BLE001 - an interrupt, or strict: raised below
                raised = raised or error
        if raised is not None:
            raise raised

    def _do(self, writer: Writer, action: Callable[[], None]) -> bool:
        """True if an action of a writer succeeded."""
        try:
            action()
            return True
        except Exception as error:
            if self._strict:
                raise
            kind = type(error).__name__
            if (id(writer), kind) not in self._reported:
                self._reported.add((id(writer), kind))
                name = type(writer).__name__
                self._failures.append(f"the writer {name} failed: {kind}: {error}")
            return False


class _Delivery:
    """A batch on its way to the writers; it comes to each once, also after an interrupt.

    A writer may have been interrupted before it took the batch, or after. One that tells them apart
    has ``takes_once``, and gets the batch again. Others do not: a number that is missing where the
    training was interrupted is better than one that occurs twice.

    Attributes:
        batch: The batch.
        is_done: True if all have it.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.is_done = False
        self._begun: set[int] = set()
        self._done: set[int] = set()

    def write(self, writer: Writer) -> None:
        """Writes the batch to a writer, unless it has it."""
        key = id(writer)
        may_again = getattr(writer, "takes_once", False)
        if key in self._done or (key in self._begun and not may_again):
            return
        self._begun.add(key)
        try:
            writer.write(self.batch)
        except Exception:
            self._done.add(key)
            raise
        self._done.add(key)
