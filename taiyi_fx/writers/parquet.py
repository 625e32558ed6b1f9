"""Runs as parts of Parquet, which polars, DuckDB and Spark read too."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from taiyi_fx.outline import Outline
from taiyi_fx.runs.damage import checked, checked_session, reading
from taiyi_fx.runs.head import (
    KINDS,
    NO_CUT,
    NO_RENUMBERING,
    Cut,
    Head,
    Renumbering,
    as_json,
    files_of_parts,
    part_of,
    read_head,
    stored_series,
    temporary,
)
from taiyi_fx.runs.parquet import pyarrow, read_part, renumbered, schema
from taiyi_fx.runs.schema import OUTLINE, PARQUET, Session, StoredSeries
from taiyi_fx.writers.buffer import (
    Buffer,
    EpochEnded,
    Item,
    StepNumbers,
    Transaction,
)
from taiyi_fx.writers.folder import folder_of, folder_of_part, note_part, run_exists
from taiyi_fx.writers.lock import Lock
from taiyi_fx.writers.parquet_columns import COLUMNS, OfSeries
from taiyi_fx.writers.protocol import Batch, RunInfo

_SOUGHT = ("step", "epoch", "series")
_PART = re.compile(rf"({'|'.join(KINDS)})-[0-9]+\.parquet")


class Parquet:
    """Keeps a run in a folder of Parquet files, a part for each flush; needs pyarrow.

    ``polars.read_parquet("runs/exp1/points-*.parquet")`` is the long table of all numbers, in the
    columns of the run store's view ``points``; `taiyi_fx.open_run` reads the folder as well.
    Resuming, locks and ranks are as in `Store`. Integers beyond 64 bits become floating point.
    What a flush writes counts at once, numbers, tensors and events alike; then its parts take
    these names.

    Args:
        path: The run's folder; made if it is not there.
        overwrite: Replace a run that is there, if this one begins at step 0.

    Raises:
        TypeError: The path is not a path.
        ValueError: The path is empty.
    """

    takes_once = True

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        self._path = folder_of(path)
        self._overwrite = overwrite
        self._outlined: Outline | None = None
        self._token = uuid.uuid4().hex
        self._begun = (-1, 0)

    def open(self, run: RunInfo) -> None:
        """Makes the folder, or goes on with the run that is there.

        Raises:
            ImportError: pyarrow is not installed.
            FileExistsError: It holds a run, and this one begins at step 0.
            BlockingIOError: Another writer has it open.
            OSError: It cannot be written to.
            ValueError: The run there is damaged, or of a newer taiyi_fx.
        """
        self._arrow, self._parquet = pyarrow("pyarrow"), pyarrow("pyarrow.parquet")
        self._arrow.array(np.empty(0))  # at its first array it imports pandas, which takes a second
        self._folder = folder_of_part(self._path, run)
        with ExitStack() as undo:
            self._lock = Lock(self._folder / "parts.lock")
            undo.callback(self._lock.release)
            with reading(self._folder):
                self._begin(run)
                known = stored_series(self._written.head)
                self._of_series = OfSeries(known)
            note_part(self._folder, run)
            self._outline = run.outline
            self._buffer = Buffer(run, known, self._commit)
            undo.pop_all()

    def write(self, batch: Batch) -> None:
        """Adds a batch in memory; writes when a million numbers wait there.

        Raises:
            ValueError: A step or an epoch has more than 64 bits, or a tensor has 10⁹ bytes; the
                rest is kept.
        """
        self._buffer.add(batch)

    def flush(self) -> None:
        """Writes what waits, which then counts at once; in several steps beyond 250,000 numbers.

        Raises:
            OSError: It cannot be written; the next flush tries again.
            BufferError: It cannot be written, and more than four million numbers wait: the oldest
                are lost.
        """
        self._buffer.drain()
        self._keep_outline()

    def close(self) -> None:
        """Writes the last part.

        Raises:
            BufferError: It cannot be written, and is lost.
        """
        if self._buffer.is_fork:
            return
        try:
            self._buffer.drain(is_last=True)
        except Exception:
            self._lock.release()
            raise
        self._lock.release()  # not after an interrupt: what still waits is written when it comes

    def _keep_outline(self) -> None:
        """Writes the outline where it has changed."""
        outline = self._outline()
        if outline is self._outlined or self._buffer.is_fork:
            return
        text = json.dumps(outline.to_json()).encode()
        _put(self._folder / OUTLINE, lambda sink: sink.write(text))
        self._outlined = outline

    def _begin(self, run: RunInfo) -> None:
        """Begins a session: drops what comes again, and takes the head over."""
        is_first = run.start_step == 0
        head = Head() if self._overwrite and is_first else self._found()
        if is_first:
            self._refuse(head)
        sessions = [checked_session(Session(**x)) for x in head.sessions]
        epochs = [checked(_Ended(*x)) for x in head.epochs]
        stored_series(head)
        own = Session(run.start_step, run.model, run.config, run.versions, run.seed)
        kept = [x._asdict() for x in sessions if x.start_step < run.start_step]
        head = replace(
            head,
            sessions=[*kept, own._asdict()],
            epochs=[x for x in epochs if x.last is None or x.last < run.start_step],
            cut=Cut(head.next, run.start_step),
            writer=self._token,
        )
        self._written = self._replacing = _Written.of(head)
        _put(self._folder / PARQUET, self._written.write)
        self._put_head(self._settled(head))
        self._delete_unlisted(head)

    def _found(self) -> Head:
        """The head that is there, once all is done that it says, or a new one."""
        if not (self._folder / PARQUET).exists():
            for kind in KINDS:
                for part in files_of_parts(self._folder, kind):
                    raise ValueError(f"{str(part)!r} is the part of a run that has no {PARQUET}")
            return Head()
        head = self._settled(read_head(self._folder))
        for part in self._parts(head):
            if not part.exists():
                raise FileNotFoundError(f"{str(part)!r} is missing, a part of this run")
        return head

    def _refuse(self, head: Head) -> None:
        """Raises if there are numbers, tensors or events."""
        steps = [step for part in self._parts(head) for step in self._steps(part)]
        if steps:
            model = head.sessions[-1]["model"] if head.sessions else "an unknown model"
            raise run_exists(self._folder, model, min(steps), max(steps), "Parquet")

    def _settled(self, head: Head) -> Head:
        """Gives parts their names and their rows as a head says, and the head when that is done."""
        for kind in KINDS:
            for number in head.parts[kind][-1:]:  # those before have their names
                self._name(part_of(self._folder, kind, number))
        if head.is_settled:
            return head
        parts = {
            kind: [n for n in head.parts[kind] if self._keeps(head, kind, n)] for kind in KINDS
        }
        return replace(head, parts=parts, cut=NO_CUT, renumbering=NO_RENUMBERING)

    def _name(self, part: Path) -> None:
        """Gives a part its name, unless it has it."""
        if not part.exists():
            with suppress(FileNotFoundError):
                temporary(part).replace(part)

    def _keeps(self, head: Head, kind: str, number: int) -> bool:
        """Rewrites a part where its rows are not as they count; False if none of them does."""
        part = part_of(self._folder, kind, number)
        if number < head.cut.number:
            if not part.exists():  # an earlier session had begun to drop them
                return False
            keeps = np.array([step < head.cut.step for step in self._steps(part)], np.bool_)
            if not keeps.any():
                part.unlink()
                return False
            if not keeps.all():
                self._put_part(part, read_part(part).filter(self._arrow.array(keeps)))
        if kind != "events" and head.renumbering.first <= number < head.renumbering.end:
            self._put_part(part, renumbered(read_part(part), head, number))
        return True

    def _delete_unlisted(self, head: Head) -> None:
        """Deletes what an earlier session wrote and no head lists."""
        listed = set(self._parts(head))
        for file in self._folder.iterdir():
            if file.suffix == ".tmp" or (_PART.fullmatch(file.name) and file not in listed):
                file.unlink()

    def _commit(self, new: Transaction) -> None:
        head = self._own_head()
        if (settled := self._settled(head)) is not head:
            self._put_head(settled)
        if self._begun[0] != new.number:
            self._begun = new.number, settled.next
        if self._begun[1] < settled.next:
            return  # it was committed already, and an interrupt came right after
        self._put_head(self._extended(settled, new))
        # It counts. What cannot be done now, the next transaction or the next session does.
        with suppress(OSError, ValueError):
            written = self._written.head
            if (settled := self._settled(written)) is not written:
                self._put_head(settled)

    def _extended(self, head: Head, new: Transaction) -> Head:
        """The head with a transaction, once its parts are on the disk under temporary names."""
        number = head.next
        series = head.series
        if new.series:
            # By id: after a failure the same series come again.
            known = [StoredSeries(*row) for row in head.series]
            every = {s.id: s for s in [*known, *new.series]}
            series = list(every.values())
            self._of_series = OfSeries(series)
        parts = dict(head.parts)
        for kind, (of, columns) in COLUMNS.items():
            found = [item for item in new.items if isinstance(item, of)]
            if found:
                table = self._arrow.table(columns(found, self._of_series), schema=schema(kind))
                part = part_of(self._folder, kind, number)
                _prepare(part, lambda sink, table=table: self._write_part(table, sink))
                parts[kind] = [*parts[kind], number]
        head = replace(head, series=series, parts=parts, next=number + 1)
        last = new.items[-1]
        return self._ended(head, last, new.items) if isinstance(last, EpochEnded) else head

    def _ended(self, head: Head, ended: EpochEnded, items: Sequence[Item]) -> Head:
        """The head with the entry of an epoch, whose number is known only at its end."""
        number = head.next - 1
        start = head.epochs[-1][3] + 1 if head.epochs else 0
        steps = [item.step for item in items if isinstance(item, StepNumbers)]
        for n in head.parts["points"]:
            if start <= n < number:
                steps += self._steps(part_of(self._folder, "points", n))
        ends = (min(steps), max(steps)) if steps else (None, None)
        epochs = [*head.epochs, _Ended(ended.number, *ends, number)]
        if ended.number == ended.expected:
            return replace(head, epochs=epochs)
        renumbering = Renumbering(start, head.next, ended.expected, ended.number)
        return replace(head, epochs=epochs, renumbering=renumbering)

    def _parts(self, head: Head) -> list[Path]:
        return [part_of(self._folder, kind, n) for kind in KINDS for n in head.parts[kind]]

    def _steps(self, part: Path) -> list[int]:
        return read_part(part, columns=["step"]).column("step").to_pylist()

    def _own_head(self) -> Head:
        """The head that is there, which is the one that was put there last.

        Raises:
            BlockingIOError: Another writer has begun, as where the file of the lock was deleted.
        """
        found = (self._folder / PARQUET).read_bytes()
        if found == self._replacing.text:
            self._written = self._replacing
        if found != self._written.text:
            raise BlockingIOError(
                f"another writer has taken over {str(self._folder)!r}, whose lock was deleted: "
                "this one writes nothing more"
            )
        return self._written.head

    def _put_head(self, head: Head) -> None:
        file = self._folder / PARQUET
        replacing = _Written.of(head)
        _prepare(file, replacing.write)
        _sync_folder(self._folder)  # the names of parts, before there is what lists them
        self._own_head()
        self._replacing = replacing  # an interrupt may come before it is known to be there
        try:
            temporary(file).replace(file)
        except OSError:
            # A network's file system may have done it, and have lost the answer.
            if file.read_bytes() != replacing.text:
                raise
        self._written = replacing
        _sync_folder(self._folder)

    def _put_part(self, part: Path, table: Any) -> None:  # pyarrow's own
        _put(part, lambda sink: self._write_part(table, sink))

    def _write_part(self, table: Any, sink: BinaryIO) -> None:  # pyarrow's own
        # Without statistics of texts, and dictionaries of numbers, it takes half the time.
        plain = ("value", "integer", "data")
        options = {
            "use_dictionary": [name for name in table.column_names if name not in plain],
            "write_statistics": [name for name in table.column_names if name in _SOUGHT],
            "write_page_checksum": True,
        }
        self._parquet.write_table(table, sink, **options)


class _Ended(NamedTuple):
    """The entry of an epoch that ended, with the number of its transaction."""

    number: int
    first: int | None
    last: int | None
    transaction: int


class _Written(NamedTuple):
    """A head, and the bytes of its file."""

    head: Head
    text: bytes

    @classmethod
    def of(cls, head: Head) -> _Written:
        """A head with its bytes."""
        return cls(head, as_json(head).encode())

    def write(self, sink: BinaryIO) -> None:
        """Writes the bytes."""
        sink.write(self.text)


def _put(file: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes a file that takes its name when it is complete and on the disk."""
    _prepare(file, write)
    temporary(file).replace(file)


def _prepare(file: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes a file to the disk under its temporary name."""
    made = temporary(file)
    try:
        with made.open("wb") as sink:
            write(sink)
            sink.flush()
            os.fsync(sink.fileno())
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Puts the names in a folder on the disk, where the system can."""
    if os.name == "nt":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems of a network cannot
            os.fsync(opened)
    finally:
        os.close(opened)
