"""The head of a run in Parquet: its sessions, series and epochs, and which parts count.

Numbers, tensors and events stand in parts, up to one of each for a transaction. What is new of all
three has to count at once, wherever the process ends, and no file system gives several files their
names in one step. It does so with one file, which is the head:

1. The parts are written under temporary names, which no pattern for parts matches.
2. The head is replaced by one that lists them. By this step they count, all of them.
3. They take their names. A reader finds a part that is listed under either.

A process that ends before the second step leaves files that nobody lists: readers pass over them,
and the next session deletes them. One that ends after it leaves renames for the next session to do.

Two things change parts that count already: a session that resumes a run drops later steps, and an
epoch may get another number at its end than its rows were written with. This takes a while, part
by part. So the head first says what is to be done (`Cut`, `Renumbering`), which readers apply to
the rows that they find. Doing it twice comes to the same, and the next head says that it is done.

Runs before version 3 have no list: all parts of their folder count.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from taiyi_fx.runs.damage import checked, numbered, reading
from taiyi_fx.runs.schema import PARQUET, PARQUET_VERSION, SESSIONS, StoredSeries, newer

KINDS = ("points", "tensors", "events")
"""The kinds of parts."""


class Cut(NamedTuple):
    """The rows that count no longer: those from a step on, in parts below a number."""

    number: int
    step: int


class Renumbering(NamedTuple):
    """Another number for the rows of an epoch, in parts from a first one to below an end."""

    first: int
    end: int
    epoch: int
    number: int


NO_CUT = Cut(0, 0)
NO_RENUMBERING = Renumbering(0, 0, 0, 0)


@dataclass(frozen=True)
class Head:
    """The head of a run. Rows of sessions, series and epochs are as the file has them, unchecked.

    Attributes:
        sessions: The sessions that wrote the run.
        series: All series.
        epochs: The epochs that ended, each with the number of its transaction.
        parts: The numbers of the parts of each kind, ascending.
        next: The number of the next transaction.
        cut: The rows that a session is dropping.
        renumbering: The rows that are getting another epoch.
        writer: A token that each writer has its own of.
    """

    sessions: Sequence[Any] = ()
    series: Sequence[Any] = ()
    epochs: Sequence[Any] = ()
    parts: Mapping[str, Sequence[int]] = field(default_factory=lambda: dict.fromkeys(KINDS, ()))
    next: int = 0
    cut: Cut = NO_CUT
    renumbering: Renumbering = NO_RENUMBERING
    writer: str = ""

    @property
    def is_settled(self) -> bool:
        """True if all rows are as they count."""
        return self.cut == NO_CUT and self.renumbering == NO_RENUMBERING

    def continues(self, earlier: Head) -> bool:
        """True if parts that an earlier head listed still stand as they stood."""
        before = (earlier.writer, earlier.epochs, earlier.cut)
        return (self.writer, self.epochs, self.cut) == before


def read_head(folder: Path) -> Head:
    """The head of the run in a folder.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged, or of a newer taiyi_fx.
    """
    file = folder / PARQUET
    with reading(file):
        found = json.loads(_text_of(file))
        if not isinstance(found, dict) or not isinstance(found.get("version"), int):
            raise ValueError(f"{str(file)!r} is no run of taiyi_fx")
        if found["version"] > PARQUET_VERSION:
            raise ValueError(newer(file, found["version"], PARQUET_VERSION))
        for part in (SESSIONS, "series", "epochs"):
            if not isinstance(found.get(part), list):
                raise ValueError(f"{str(file)!r} is damaged: it has no {part}")
        return _head(found, folder)


def as_json(head: Head) -> str:
    """The text of a head's file."""
    rows = {SESSIONS: head.sessions, "series": head.series, "epochs": head.epochs}
    files = {"parts": head.parts, "next": head.next, "writer": head.writer}
    todo = {"cut": head.cut, "renumbering": head.renumbering}
    return json.dumps({"version": PARQUET_VERSION, **rows, **files, **todo})


def stored_series(head: Head) -> Sequence[StoredSeries]:
    """All series of a run that is to be added to.

    Raises:
        TypeError: A part of one is of another type.
        ValueError: Ids are missing, or two series are one.
    """
    return numbered([checked(StoredSeries(*row)) for row in head.series])


def part_of(folder: Path, kind: str, number: int) -> Path:
    """The file of a part."""
    return folder / f"{kind}-{number:08}.parquet"


def temporary(file: Path) -> Path:
    """The file under which another is written, until it counts."""
    return file.with_name(f"{file.name}.tmp")


def files_of_parts(folder: Path, kind: str) -> list[Path]:
    """The files that have names of parts of one kind, whether they count or not."""
    return sorted(folder.glob(f"{kind}-*.parquet"))


def _text_of(file: Path) -> str:
    while True:
        try:
            return file.read_text(encoding="utf-8")
        except OSError as error:
            # On a network's file system: it was replaced after it was opened.
            if error.errno != errno.ESTALE:
                raise


def _head(found: Mapping[str, Any], folder: Path) -> Head:
    rows = (found[SESSIONS], found["series"], found["epochs"])
    cut = checked(Cut(*found.get("cut", NO_CUT)))
    if found["version"] < PARQUET_VERSION:
        parts = {kind: _numbers_of_files(folder, kind) for kind in KINDS}
        used = [*(n for numbers in parts.values() for n in numbers), *(x[3] for x in rows[2])]
        return Head(*rows, parts, 1 + max(used, default=-1), cut, writer=found.get("writer", ""))
    parts = {kind: _numbers(found["parts"][kind]) for kind in KINDS}
    renumbering = checked(Renumbering(*found["renumbering"]))
    (next_number,) = _numbers([found["next"]])
    return Head(*rows, parts, next_number, cut, renumbering, found["writer"])


def _numbers(found: Any) -> list[int]:  # of JSON
    """Numbers of parts, checked."""
    if not isinstance(found, list) or not all(type(n) is int and 0 <= n < 2**63 for n in found):
        raise TypeError(f"{str(found)[:40]} are no numbers of parts")
    return found


def _numbers_of_files(folder: Path, kind: str) -> list[int]:
    return [_number(file) for file in files_of_parts(folder, kind)]


def _number(part: Path) -> int:
    number = part.stem.rpartition("-")[2]
    if not (number.isascii() and number.isdigit()):
        raise ValueError(f"{str(part)!r} is no part of a run: its name has no number")
    return int(number)
