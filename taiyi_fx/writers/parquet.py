"""Runs as parts of Parquet, which polars, DuckDB and Spark read too."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.outline import Outline
from taiyi_fx.runs.damage import checked, checked_session, reading
from taiyi_fx.runs.parquet import (
    Cut,
    cut_of,
    part_number,
    parts,
    pyarrow,
    read_head,
    read_part,
    schema,
    stored_series,
)
from taiyi_fx.runs.schema import (
    CUT,
    OUTLINE,
    PARQUET,
    SESSIONS,
    VERSION,
    WRITER,
    Session,
    StoredSeries,
    as_bytes,
)
from taiyi_fx.runs.source import FLAGS, flags
from taiyi_fx.writers.buffer import (
    Buffer,
    EpochEnded,
    StepEvent,
    StepNumbers,
    StepTensor,
    Transaction,
)
from taiyi_fx.writers.folder import folder_of, of_rank, run_exists
from taiyi_fx.writers.lock import Lock
from taiyi_fx.writers.protocol import Batch, RunInfo

_TEXTS = ("module", "quantity", "mode", "direction", "unit")
_SOUGHT = ("step", "epoch", "series")


class Parquet:
    """Keeps a run in a folder of Parquet files, a part for each flush; needs pyarrow.

    ``polars.read_parquet("runs/exp1/points-*.parquet")`` is the long table of all numbers, in the
    columns of the run store's view ``points``; `taiyi_fx.open_run` reads the folder as well.
    Resuming, locks and ranks are as in `Store`. Integers beyond 64 bits become floating
    point. A part appears under its name when it is complete.

    Args:
        path: The run's folder; made if it is not there.
        overwrite: Replace a run that is there.

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
        self._folder = of_rank(self._path, run.rank)
        with ExitStack() as undo:
            self._lock = Lock(self._folder / "parts.lock")
            undo.callback(self._lock.release)
            with reading(self._folder):
                self._begin(run)
                known = stored_series(self._head)
                self._of_series = _OfSeries(known)
                self._first = self._next_number(self._head)
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
        """Writes what waits as a part; as several where there are more than 250,000 numbers.

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
        head = self._found()
        if run.start_step == 0:
            self._refuse(head)
        sessions = [checked_session(Session(**x)) for x in head[SESSIONS]]
        epochs = [checked(_Ended(*x)) for x in head["epochs"]]
        stored_series(head)
        own = Session(run.start_step, run.model, run.config, run.versions, run.seed)
        kept = [x._asdict() for x in sessions if x.start_step < run.start_step]
        head = {
            **head,
            "version": VERSION,
            SESSIONS: [*kept, own._asdict()],
            "epochs": [x for x in epochs if x.last is None or x.last < run.start_step],
        }
        cut = Cut(self._next_number(head), run.start_step)
        self._put_head({**head, CUT: cut})
        self._drop(cut)
        self._put_head(head)

    def _found(self) -> dict[str, Any]:
        """The head that is there, after an earlier session's cut is done, or a new one."""
        file = self._folder / PARQUET
        head_last = [*reversed(self._parts()), file] if self._overwrite else []
        for path in [*self._folder.glob("*.tmp"), *head_last]:
            path.unlink(missing_ok=True)
        if not file.exists():
            if parts := self._parts():
                raise ValueError(f"{str(parts[0])!r} is the part of a run that has no {PARQUET}")
            return {"version": VERSION, SESSIONS: [], "series": [], "epochs": []}
        head = read_head(self._folder)
        self._drop(cut_of(head))
        return {key: value for key, value in head.items() if key != CUT}

    def _next_number(self, head: Mapping[str, Any]) -> int:
        used = [*map(part_number, self._parts()), *(x[3] for x in head["epochs"])]
        return 1 + max(used, default=-1)

    def _refuse(self, head: dict[str, Any]) -> None:
        """Raises if there are numbers, tensors or events."""
        steps = [step for part in self._parts() for step in self._steps(part)]
        if steps:
            model = head[SESSIONS][-1]["model"] if head[SESSIONS] else "an unknown model"
            raise run_exists(self._folder, model, min(steps), max(steps), "Parquet")

    def _drop(self, cut: Cut) -> None:
        """Drops the rows that count no longer."""
        for part in self._parts():
            if part_number(part) < cut.number:
                self._cut(part, cut.step)

    def _cut(self, part: Path, start: int) -> None:
        """Drops rows at a step and later ones."""
        keeps = np.array([step < start for step in self._steps(part)], np.bool_)
        if not keeps.any():
            part.unlink()
        elif not keeps.all():
            table = read_part(part)
            self._put_part(part, table.filter(self._arrow.array(keeps)))

    def _commit(self, new: Transaction) -> None:
        self._check_is_own()
        number = self._first + new.number
        if new.series:
            # By id: after a failure the same series come again.
            known = [StoredSeries(*row) for row in self._head["series"]]
            every = {s.id: s for s in [*known, *new.series]}
            self._put_head({**self._head, "series": list(every.values())})
            self._of_series = _OfSeries(list(every.values()))
        for kind, (of, columns) in _COLUMNS.items():
            found = [item for item in new.items if isinstance(item, of)]
            if found:
                table = self._arrow.table(columns(found, self._of_series), schema=schema(kind))
                # After a failure the same number comes again, and its file replaces the first.
                self._put_part(self._folder / f"{kind}-{number:08}.parquet", table)
        for item in new.items:
            if isinstance(item, EpochEnded):
                self._end(item, number)

    def _end(self, ended: EpochEnded, number: int) -> None:
        """Adds the entry of an epoch, and gives it its number, which is known only at its end."""
        steps: list[int] = []
        epochs = [x for x in self._head["epochs"] if x[3] < number]  # this end may come again
        start = epochs[-1][3] if epochs else 0
        for kind in ("points", "tensors"):
            for part in parts(self._folder, kind):
                if part_number(part) >= start:
                    self._renumber(part, ended)
                    steps += self._steps(part) if kind == "points" else []
        ends = (min(steps), max(steps)) if steps else (None, None)
        self._put_head({**self._head, "epochs": [*epochs, (ended.number, *ends, number)]})

    def _renumber(self, part: Path, ended: EpochEnded) -> None:
        if ended.number == ended.expected:
            return
        table = read_part(part)
        epoch = table.column("epoch").to_numpy()
        changed = np.where(epoch == ended.expected, ended.number, epoch)
        at = table.schema.get_field_index("epoch")
        self._put_part(part, table.set_column(at, "epoch", self._arrow.array(changed)))

    def _parts(self) -> list[Path]:
        return [part for kind in _COLUMNS for part in parts(self._folder, kind)]

    def _steps(self, part: Path) -> list[int]:
        return read_part(part, columns=["step"]).column("step").to_pylist()

    def _check_is_own(self) -> None:
        """Raises where another writer has begun, as where the file of the lock was deleted."""
        if read_head(self._folder).get(WRITER) != self._token:
            raise BlockingIOError(
                f"another writer has taken over {str(self._folder)!r}, whose lock was deleted: "
                "this one writes nothing more"
            )

    def _put_head(self, head: dict[str, Any]) -> None:
        text = json.dumps({**head, WRITER: self._token}).encode()
        _put(self._folder / PARQUET, lambda sink: sink.write(text))
        self._head = head

    def _put_part(self, part: Path, table: Any) -> None:  # pyarrow's own
        # Without statistics of texts, and dictionaries of numbers, it takes half the time.
        plain = ("value", "integer", "data")
        options = {
            "use_dictionary": [name for name in table.column_names if name not in plain],
            "write_statistics": [name for name in table.column_names if name in _SOUGHT],
        }
        _put(part, lambda sink: self._parquet.write_table(table, sink, **options))


class _Ended(NamedTuple):
    """The entry of an epoch that ended, with the number of its transaction."""

    number: int
    first: int | None
    last: int | None
    transaction: int


def _put(file: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes a file that takes its name when it is complete and on the disk."""
    made = file.with_name(f"{file.name}.tmp")
    try:
        with made.open("wb") as sink:
            write(sink)
            sink.flush()
            os.fsync(sink.fileno())
        made.replace(file)
    finally:
        made.unlink(missing_ok=True)


class _OfSeries:
    """The columns that describe series, which each of their points repeats."""

    def __init__(self, known: Sequence[StoredSeries]) -> None:
        self._calls = np.array([s.call for s in known], np.int64)
        self._texts: dict[str, tuple[list[str], NDArray[np.int32]]] = {}
        for name in _TEXTS:
            texts = [getattr(s, name) for s in known]
            places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
            self._texts[name] = list(places), np.array([places[t] for t in texts], np.int32)

    def columns(self, series: NDArray[np.int64]) -> dict[str, Any]:
        """The columns for points of these series, whose ids begin at 1."""
        rows = series - 1
        made = pyarrow("pyarrow").DictionaryArray.from_arrays
        texts = {name: made(codes[rows], words) for name, (words, codes) in self._texts.items()}
        return {"series": series, "call": self._calls[rows], **texts}


def _of_numbers(items: Sequence[StepNumbers], of_series: _OfSeries) -> dict[str, Any]:
    sizes = [x.size for x in items]
    # Most steps have the same series, in the same list.
    lists = {id(x.series): x.series for x in items}
    once = {key: np.array(ids, np.int64) for key, ids in lists.items()}
    values = np.concatenate([np.array(x.values, np.float64) for x in items])
    return {
        "step": np.repeat(np.array([x.step for x in items], np.int64), sizes),
        "epoch": np.repeat(np.array([x.epoch for x in items], np.int64), sizes),
        **of_series.columns(np.concatenate([once[id(x.series)] for x in items])),
        "value": values,
        "integer": _integers(items, len(values)),
        "flag": _flags(values),
    }


def _flags(values: NDArray[np.float64]) -> Any:  # pyarrow's own
    arrow = pyarrow("pyarrow")
    found = flags(values).astype(np.int32)
    codes = arrow.array(found - 1, mask=found == 0)
    return arrow.DictionaryArray.from_arrays(codes, FLAGS[1:])


def _integers(items: Sequence[StepNumbers], count: int) -> Any:  # pyarrow's own
    """The column of exact integers; null for other numbers and for those beyond 64 bits."""
    if all(set(map(type, x.values)) == {float} for x in items):
        return pyarrow("pyarrow").nulls(count, "int64")
    return [
        int(v) if not isinstance(v, float) and -(2**63) <= v < 2**63 else None
        for x in items
        for v in x.values
    ]


def _of_arrays(items: Sequence[StepTensor], of_series: _OfSeries) -> dict[str, Any]:
    return {
        "step": [x.step for x in items],
        "epoch": [x.epoch for x in items],
        **of_series.columns(np.array([x.series for x in items], np.int64)),
        "dtype": [x.value.dtype.name for x in items],
        "shape": [list(x.value.shape) for x in items],
        "data": [as_bytes(x.value) for x in items],
    }


def _of_events(items: Sequence[StepEvent], of_series: _OfSeries) -> dict[str, Any]:
    del of_series  # events belong to no series
    return {name: [getattr(x, name) for x in items] for name in StepEvent._fields}


_COLUMNS: Mapping[str, tuple[type, Callable[[Any, _OfSeries], dict[str, Any]]]] = {
    "points": (StepNumbers, _of_numbers),
    "tensors": (StepTensor, _of_arrays),
    "events": (StepEvent, _of_events),
}
