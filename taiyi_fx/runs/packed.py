"""A run's numbers as columns, beside their rows: a closed run is read from these.

SQLite gives Python one number at a time, which takes half a microsecond for each; for ten million a
reader waits. So a run that ends keeps its numbers once more, series by series: their rows, steps
and epochs as differences, which are nearly all equal and compress to almost nothing, and their
values as bytes. That takes half the room of an index by which SQL would find them. The rows stay,
for SQL; whatever changes one of them empties the columns, and numbers are read from rows again.

Each row of the columns ends in a checksum of all that is in it, so that a changed bit of a closed
run is reported as damage and not shown as a number.

Columns are made for a million rows at a time, so that neither making nor reading them needs the
memory of a whole run. Rows after the last columns, as of a run that goes on, are read as rows.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.runs.source import Points, Span

ROWS = 1_000_000
"""Rows of ``point`` in one set of columns."""

PACKED = "packed"
"""The name of their table."""

_TABLE = """
CREATE TABLE packed (
    first INTEGER, last INTEGER, series INTEGER,
    numbers INTEGER, first_step INTEGER, last_step INTEGER,
    kind TEXT, places BLOB, value BLOB,
    PRIMARY KEY (first, series)
);
"""
_INDEX = "CREATE INDEX packed_series ON packed (series)"

TRIGGERS = [
    "CREATE TRIGGER point_updated AFTER UPDATE ON point BEGIN DELETE FROM packed; END",
    "CREATE TRIGGER point_deleted AFTER DELETE ON point BEGIN DELETE FROM packed; END",
]
"""Triggers that empty the columns when a row is changed by SQL."""

_ROW = [
    ("rowid", np.int64),
    ("step", np.int64),
    ("epoch", np.int64),
    ("series", np.int64),
    ("value", np.float64),
]

_COLUMNS = "first, last, series, numbers, first_step, last_step, kind, places, value"

_SEALED = " crc32"
"""The end of a kind whose values end in a checksum; those of earlier versions have none."""
_SEAL = 4


class Columns(NamedTuple):
    """Numbers of one series.

    Attributes:
        series: Its id.
        row: Their rows in ``point``, ascending.
        step: Their steps.
        epoch: Their epochs.
        value: float64, int64, or Python's integers where int64 is too narrow.
    """

    series: int
    row: NDArray[np.int64]
    step: NDArray[np.int64]
    epoch: NDArray[np.int64]
    value: NDArray[Any]


def packed_until(db: sqlite3.Connection) -> int:
    """The last row of ``point`` that is in columns; 0 if none is."""
    if not _has_columns(db):
        return 0
    (last,) = db.execute("SELECT coalesce(max(last), 0) FROM packed").fetchone()
    return last


def _has_columns(db: sqlite3.Connection) -> bool:
    named = "SELECT 1 FROM sqlite_master WHERE name = 'packed'"
    return db.execute(named).fetchone() is not None


def drop_columns(db: sqlite3.Connection) -> None:
    """Drops all columns: rows are going to change."""
    for trigger in ("point_updated", "point_deleted"):
        db.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    db.execute("DROP TABLE IF EXISTS packed")


def make_columns(db: sqlite3.Connection) -> None:
    """Makes columns of all rows, within the caller's transaction."""
    drop_columns(db)
    for statement in (_TABLE, _INDEX, *TRIGGERS):
        db.execute(statement)
    (last,) = db.execute("SELECT coalesce(max(rowid), 0) FROM point").fetchone()
    for begin in range(0, last, ROWS):
        _pack(db, begin, min(begin + ROWS, last))


def _pack(db: sqlite3.Connection, begin: int, last: int) -> None:
    """Makes the columns of the rows after ``begin``, up to ``last``."""
    within = "FROM point WHERE rowid > ? AND rowid <= ?"
    columns = ", ".join(name for name, _ in _ROW)
    # As float64 numpy takes None, which is NULL, for NaN, and digits for their number.
    text = f"SELECT {columns} {within} ORDER BY rowid"
    # Closed also by an interrupt: SQLite ends no log that is still being read.
    with closing(db.execute(text, (begin, last))) as rows:
        table = np.fromiter(rows, _ROW)
    whole = _whole_numbers(db, within, (begin, last))
    table = table[np.argsort(table["series"], kind="stable")]
    every, first = np.unique(table["series"], return_index=True)
    db.executemany(
        "INSERT INTO packed VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            _sealed(begin + 1, last, series, *_cells(part, whole.get(series)))
            for series, part in zip(every.tolist(), np.split(table, first[1:]), strict=False)
        ),
    )


def _whole_numbers(
    db: sqlite3.Connection, within: str, bounds: tuple[int, int]
) -> dict[int, list[int]]:
    """The numbers of series that have nothing but integers, which float64 may not hold."""
    of_type = f"SELECT DISTINCT series {within} AND typeof(value)"
    integers = {i for (i,) in db.execute(f"{of_type} IN ('integer', 'text')", bounds).fetchall()}
    integers -= {i for (i,) in db.execute(f"{of_type} IN ('real', 'null')", bounds).fetchall()}
    found: dict[int, list[int]] = {i: [] for i in integers}
    some = ", ".join(map(str, integers))
    text = f"SELECT series, value {within} AND series IN ({some}) ORDER BY rowid"
    for series, value in db.execute(text, bounds).fetchall() if integers else ():
        found[series].append(int(value))
    return found


def _cells(part: NDArray[Any], whole: list[int] | None) -> tuple[Any, ...]:
    places = [np.diff(part[name], prepend=0) for name in ("rowid", "step", "epoch")]
    steps = part["step"]
    kind, values = _value_cells(part["value"], whole)
    return (
        len(part),
        int(steps.min()),
        int(steps.max()),
        kind,
        zlib.compress(_little(np.concatenate(places), np.int64), 1),
        values,
    )


def _sealed(*cells: Any) -> tuple[Any, ...]:
    """The cells of a row with a checksum of all of them behind its values."""
    *others, kind, places, value = cells
    kind += _SEALED
    return *others, kind, places, value + _checksum(*others, kind, places, value)


def _opened(*cells: Any) -> tuple[str, bytes]:
    """The kind of the values in a row and their bytes, once its checksum was compared.

    Raises:
        ValueError: The row was changed.
    """
    *others, kind, places, value = cells
    if not kind.endswith(_SEALED):
        return kind, value
    value, seal = value[:-_SEAL], value[-_SEAL:]
    if seal != _checksum(*others, kind, places, value):
        first, last, series, *_ = others
        raise ValueError(f"the checksum of series {series} in the rows {first} to {last} is wrong")
    return kind.removesuffix(_SEALED), value


def _checksum(*cells: Any) -> bytes:
    *numbers, places, value = cells
    found = zlib.crc32(value, zlib.crc32(places, zlib.crc32(repr(numbers).encode())))
    return found.to_bytes(_SEAL, "little")


def _value_cells(values: NDArray[np.float64], whole: list[int] | None) -> tuple[str, bytes]:
    if whole is None:
        return "real", _little(values, np.float64)
    if all(-(2**63) <= x < 2**63 for x in whole):
        return "integer", _little(np.array(whole, np.int64), np.int64)
    return "digits", json.dumps(whole).encode()


def _little(values: NDArray[Any], kind: Any) -> bytes:
    return values.astype(np.dtype(kind).newbyteorder("<")).tobytes()


def columns_of(db: sqlite3.Connection, series: int) -> list[Columns]:
    """The columns of one series."""
    if not _has_columns(db):
        return []
    text = f"SELECT {_COLUMNS} FROM packed WHERE series = ? ORDER BY first"
    return [_columns(*row) for row in db.execute(text, (series,))]


def points_of(
    db: sqlite3.Connection, series: Sequence[int] | None = None, after: int = 0
) -> Iterator[tuple[Points, int]]:
    """The numbers in columns of some series, or of all, in the order of rows.

    Args:
        db: The run's file.
        series: Ids; None for all.
        after: Rows up to this one are left out.

    Yields:
        Numbers, and the last row that they may belong to.
    """
    if not _has_columns(db):
        return
    text = "SELECT DISTINCT first, last FROM packed WHERE last > ? ORDER BY first"
    asked = "" if series is None else f" AND series IN ({', '.join(map(str, series))})"
    for first, last in db.execute(text, (after,)).fetchall():
        rows = db.execute(f"SELECT {_COLUMNS} FROM packed WHERE first = ?{asked}", (first,))
        yield _in_order([_columns(*row) for row in rows], after), last


def spans_of(db: sqlite3.Connection) -> list[tuple[int, Span]]:
    """The count of numbers in columns of each series, with their first and last step."""
    if not _has_columns(db):
        return []
    text = (
        "SELECT series, sum(numbers), min(first_step), max(last_step) FROM packed GROUP BY series"
    )
    return [(series, Span(*rest)) for series, *rest in db.execute(text)]


def _in_order(every: list[Columns], after: int) -> Points:
    if not every:
        return Points(*(np.empty(0, kind) for kind in (int, int, int, float)))
    row = np.concatenate([x.row for x in every])
    order = np.argsort(row, kind="stable")
    order = order[row[order] > after]
    series = np.repeat([x.series for x in every], [len(x.row) for x in every])
    return Points(
        np.concatenate([x.step for x in every])[order],
        np.concatenate([x.epoch for x in every])[order],
        series.astype(np.int64)[order],
        np.concatenate([x.value.astype(np.float64) for x in every])[order],
    )


def _columns(*cells: Any) -> Columns:
    """The columns that one row of the table has.

    Raises:
        ValueError: They are damaged.
    """
    first, last, series, numbers, *_, places, _ = cells
    kind, value = _opened(*cells)
    if not 0 < numbers <= last - first + 1 <= ROWS:
        raise ValueError(f"columns of {numbers} numbers in the rows {first} to {last}")
    size = 3 * 8 * numbers
    data = zlib.decompressobj().decompress(places, size + 1)
    if len(data) != size:
        raise ValueError(f"the places of {numbers} numbers have {len(data)} bytes")
    row, step, epoch = np.frombuffer(data, "<i8").reshape(3, numbers).astype(np.int64).cumsum(1)
    if row[0] < first or row[-1] > last or (np.diff(row) < 1).any():
        raise ValueError(f"columns of the rows {first} to {last} name other rows")
    found = Columns(series, row, step, epoch, _values(kind, value))
    if len(found.value) != numbers:
        raise ValueError(f"{len(found.value)} values of {numbers} numbers")
    return found


def _values(kind: str, data: bytes) -> NDArray[Any]:
    if kind == "digits":
        return np.array([int(x) for x in json.loads(data)], object)
    kinds = {"real": "<f8", "integer": "<i8"}
    return np.frombuffer(data, kinds[kind]).astype(kinds[kind][1:])
