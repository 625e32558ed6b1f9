"""A run on disk: its files, its tables, and names as these hold them."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from taiyi_fx.passes.ir import Mode

SQLITE = "run.sqlite"
"""The file of a run in SQLite."""

PARQUET = "run.json"
"""The file that a run in Parquet begins with; its parts lie beside it."""

SESSIONS = "lives"
"""The key of the sessions in that file: the word of schema 1, so that runs of it stay readable."""

PART = "part.json"
"""The file beside a run that is a part of one; see `part.py`."""

OUTLINE = "outline.json"
"""The file beside them with the outline of the model."""

VERSION = 2
"""The version of the schema in SQLite, which every file states. Version 1 had no ``health``."""

PARQUET_VERSION = 3
"""The version of the schema in Parquet. Version 2 had no list of the parts that count."""

APPLICATION = 0x54414959
"""The application id of a run's SQLite file."""

TABLES = """
CREATE TABLE run (start_step INTEGER, model TEXT, config TEXT, versions TEXT, seed TEXT);
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    module TEXT, call INTEGER, quantity TEXT, mode TEXT, direction TEXT, unit TEXT,
    health TEXT,
    UNIQUE (module, call, quantity, mode)
);
CREATE TABLE point (step INTEGER, epoch INTEGER, series INTEGER, value);
CREATE TABLE tensor (
    step INTEGER, epoch INTEGER, series INTEGER, dtype TEXT, shape TEXT, data BLOB
);
CREATE TABLE event (step INTEGER, kind TEXT, module TEXT, text TEXT);
CREATE TABLE epoch (
    number INTEGER, first INTEGER, last INTEGER, last_point INTEGER, last_tensor INTEGER
);
CREATE TABLE outline (data TEXT);
CREATE VIEW points AS
    SELECT p.step, p.epoch, s.module, s.call, s.quantity, s.mode, s.direction, s.unit,
        CAST(p.value AS REAL) AS value,
        CASE WHEN p.value IS NULL THEN 'NaN' WHEN p.value = 9e999 THEN '+Inf'
            WHEN p.value = -9e999 THEN '-Inf' END AS flag
    FROM point p JOIN series s ON s.id = p.series;
"""
"""A NaN is NULL in SQLite; the view says so. An integer beyond 64 bits is stored as its digits."""


class Session(NamedTuple):
    """One process that wrote to a run: the first, or one that resumed it.

    Attributes:
        start_step: Its first step.
        model: The model's class.
        config: Each quantity of each module, with its schedule and options.
        versions: Of Python, torch and taiyi_fx.
        seed: torch's initial seed.
    """

    start_step: int
    model: str
    config: Sequence[Mapping[str, Any]]
    versions: Mapping[str, str]
    seed: int

    def __repr__(self) -> str:
        """The session without its configuration, which may be very long."""
        return (
            f"Session(start_step={self.start_step}, model={self.model!r}, "
            f"config=<{len(self.config)} quantities>, versions={self.versions!r}, seed={self.seed})"
        )


class SeriesName(NamedTuple):
    """The name of a series.

    Attributes:
        module: The module, with its call: ``"fc"``, ``"fc@1"``.
        quantity: The quantity's name in records.
        mode: Of the forwards.
    """

    module: str
    quantity: str
    mode: Mode


class StoredSeries(NamedTuple):
    """A series as a file has it, with its name in tables."""

    id: int
    module: str
    call: int
    quantity: str
    mode: str
    direction: str
    unit: str
    health: str = ""

    @property
    def name(self) -> str:
        """The module's name as records have it, with its call."""
        module = from_text(self.module)
        return f"{module}@{self.call}" if self.call else module

    @property
    def series_name(self) -> SeriesName:
        """The series' name as records have it."""
        return SeriesName(self.name, from_text(self.quantity), cast("Mode", self.mode))


def newer(file: Path, version: int, known: int = VERSION) -> str:
    """The message about a file whose schema is newer than this version."""
    return (
        f"{str(file)!r} was written by a newer taiyi_fx (schema {version}, this one reads up to "
        f"{known}): pip install --upgrade taiyi-fx"
    )


def as_bytes(x: NDArray[Any]) -> bytes:
    """The values of a tensor in row-major order, little-endian."""
    return x.astype(x.dtype.newbyteorder("<"), copy=False).tobytes()


def as_array(data: bytes, dtype: str, shape: Sequence[int]) -> NDArray[Any]:
    """The tensor behind the bytes of `as_bytes`, in memory of its own."""
    kind = np.dtype(dtype).newbyteorder("<")
    if kind.kind not in "biufc":
        raise ValueError(f"{dtype!r} is not the type of a tensor")
    return np.frombuffer(data, kind).astype(dtype).reshape(as_shape(shape))


def as_shape(sizes: Sequence[int]) -> tuple[int, ...]:
    """The shape of a tensor, of whole numbers from 0.

    Raises:
        TypeError: A size is not a whole number.
        ValueError: A size is negative.
    """
    shape = tuple(map(operator.index, sizes))
    if min(shape, default=0) < 0:
        raise ValueError(f"{shape} is not the shape of a tensor")
    return shape


def to_text(name: str) -> str:
    r"""A name as UTF-8 and SQL can hold it: ``\\`` for a backslash, and what neither can escaped.

    These are zero characters, ``\x00``, and lone surrogates, such as ``\ud800``.
    """
    escaped = name.replace("\\", "\\\\").replace("\0", "\\x00")
    return escaped.encode("utf-8", "backslashreplace").decode("utf-8")


def from_text(text: str) -> str:
    """The name behind a text of `to_text`."""
    return _ESCAPE.sub(_escaped, text)


_ESCAPE = re.compile(r"\\(\\|x00|ud[89a-f][0-9a-f]{2})")


def _escaped(found: re.Match[str]) -> str:
    return "\\" if found[1] == "\\" else chr(int(found[1][1:], 16))
