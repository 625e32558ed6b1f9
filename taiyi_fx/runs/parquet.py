"""Runs in parts of Parquet."""

from __future__ import annotations

import importlib
import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.outline import Outline
from taiyi_fx.records.record import Event
from taiyi_fx.runs.schema import (
    OUTLINE,
    PARQUET,
    SESSIONS,
    VERSION,
    Session,
    Stored,
    as_array,
    from_text,
    newer,
)
from taiyi_fx.runs.source import Changed, Curve, EpochSpan, Points, Slice, Span, merged


class ParquetSource:
    """A run's parts, opened for reading.

    Args:
        folder: Where they lie.

    Raises:
        ImportError: pyarrow is not installed.
        OSError: They cannot be read.
        ValueError: They are damaged, or of a newer taiyi_fx.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        pyarrow("pyarrow.parquet")
        read_head(folder)

    def sessions(self) -> list[Session]:
        """The processes that wrote, in their order."""
        return [Session(**session) for session in read_head(self._folder)[SESSIONS]]

    def series(self) -> list[Stored]:
        """All series, by their ids."""
        return [Stored(*row) for row in read_head(self._folder)["series"]]

    def points(self, series: Sequence[int] | None = None) -> Points:
        """Numbers of some series, by their ids, or of all."""
        names = ["step", "epoch", "series", "value"]
        which = None if series is None else [("series", "in", series)]
        table = self._read("points", names, which)
        return Points(*(table.column(name).to_numpy() for name in names))

    def slices(self, mark: tuple[Any, ...] = ()) -> Iterator[Slice]:
        """All numbers, or those made after an earlier slice's mark, some at a time.

        Raises:
            Changed: What was there at the mark is not there any more.
        """
        names = ["series", "step", "value"]
        if mark and mark != _mark(self._folder / mark[0]):
            raise Changed
        for part in parts(self._folder, "points"):
            if not mark or part.name > mark[0]:
                ends = _mark(part)
                table = read_part(part, columns=names)
                series, step, value = (table.column(name).to_numpy() for name in names)
                yield Slice(series, step, value, ends)

    def curve(self, series: int) -> Curve:
        """The numbers of a series; of a step in the order of their making."""
        table = self._read("points", ["step", "value", "integer"], [("series", "==", series)])
        steps, values, integers = (table.column(i) for i in range(3))
        is_whole = len(steps) and integers.null_count == 0
        order = np.argsort(steps.to_numpy(), kind="stable")
        found = (integers if is_whole else values).to_numpy()
        return Curve(steps.to_numpy()[order], found[order])

    def arrays(self, series: int, steps: Collection[int] | None = None) -> dict[int, NDArray[Any]]:
        """A series' tensors by step, of some steps or of all; of several the last."""
        names = ["step", "dtype", "shape", "data"]
        which = [("series", "==", series)]
        which += [] if steps is None else [("step", "in", list(steps))]
        rows = self._read("tensors", names, which).to_pylist()
        return {r["step"]: as_array(r["data"], r["dtype"], r["shape"]) for r in rows}

    def shapes(self) -> dict[int, dict[int, tuple[int, ...]]]:
        """Of each series with tensors their shapes by step."""
        found: dict[int, dict[int, tuple[int, ...]]] = {}
        for row in self._read("tensors", ["series", "step", "shape"]).to_pylist():
            found.setdefault(row["series"], {})[row["step"]] = tuple(row["shape"])
        return found

    def spans(self) -> dict[int, Span]:
        """How many numbers or tensors each series has, and from which step to which."""
        found: list[tuple[int, Span]] = []
        for kind in ("points", "tensors"):
            table = self._read(kind, ["step", "series"])
            of, step = table.column("series").to_numpy(), table.column("step").to_numpy()
            ids, rows, counts = np.unique(of, return_inverse=True, return_counts=True)
            first, last = (
                np.full(len(ids), end) for end in (step.max(initial=0), step.min(initial=0))
            )
            np.minimum.at(first, rows, step)
            np.maximum.at(last, rows, step)
            columns = (x.tolist() for x in (ids, counts, first, last))
            found += [(i, Span(*rest)) for i, *rest in zip(*columns, strict=True)]
        return merged(found)

    def events(self) -> list[Event]:
        """What was told."""
        rows = self._read("events", ["step", "kind", "module", "text"]).to_pylist()
        return [
            Event(r["step"], r["kind"], from_text(r["module"]), from_text(r["text"])) for r in rows
        ]

    def epochs(self) -> list[EpochSpan]:
        """The epochs that ended."""
        return [EpochSpan(*row[:3]) for row in read_head(self._folder)["epochs"]]

    def outline(self) -> Outline | None:
        """The model as boxes within boxes; None if it was not written yet."""
        file = self._folder / OUTLINE
        if not file.exists():
            return None
        return Outline.from_json(json.loads(file.read_text(encoding="utf-8")))

    def close(self) -> None:
        """Nothing is held."""

    def _read(self, kind: str, names: list[str], filters: Any = None) -> Any:  # pyarrow's own
        none = schema(kind).empty_table().select(names)
        found = [
            read_part(part, columns=names, filters=filters) for part in parts(self._folder, kind)
        ]
        return pyarrow("pyarrow").concat_tables([none, *found])


def read_head(folder: Path) -> dict[str, Any]:
    """What a run in Parquet says of itself.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged, or of a newer taiyi_fx.
    """
    file = folder / PARQUET
    try:
        head = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{str(file)!r} is damaged, or no run: {error}") from error
    if not isinstance(head, dict) or not isinstance(head.get("version"), int):
        raise ValueError(f"{str(file)!r} is no run of taiyi_fx")
    if head["version"] > VERSION:
        raise ValueError(newer(file, head["version"]))
    for part in (SESSIONS, "series", "epochs"):
        if not isinstance(head.get(part), list):
            raise ValueError(f"{str(file)!r} is damaged: it has no {part}")
    return head


def read_part(part: Path, **options: Any) -> Any:  # pyarrow's own
    """A part as a table.

    Raises:
        ValueError: It is damaged.
    """
    try:
        return pyarrow("pyarrow.parquet").read_table(part, **options)
    except pyarrow("pyarrow").ArrowInvalid as error:
        raise ValueError(f"{str(part)!r} is damaged: {error}") from error


def parts(folder: Path, kind: str) -> list[Path]:
    """The parts of one kind: ``"points"``, ``"tensors"`` or ``"events"``."""
    return sorted(folder.glob(f"{kind}-*.parquet"))


def _mark(part: Path) -> tuple[Any, ...]:
    """A part's name, and what changes when it is written anew; empty where there is none."""
    try:
        found = part.stat()
    except FileNotFoundError:
        return ()
    return part.name, found.st_mtime_ns, found.st_size, found.st_ino


def schema(kind: str) -> Any:  # pyarrow's own
    """The columns of a part: a long table, of which each part has all."""
    arrow = pyarrow("pyarrow")
    texts, whole = arrow.dictionary(arrow.int32(), arrow.string()), arrow.int64()
    of_series = [("series", whole), ("module", texts), ("call", whole)]
    of_series += [(name, texts) for name in ("quantity", "mode", "direction", "unit")]
    own = {
        "points": [("value", arrow.float64()), ("integer", whole), ("flag", texts)],
        "tensors": [
            ("dtype", arrow.string()),
            ("shape", arrow.list_(whole)),
            ("data", arrow.large_binary()),
        ],
    }
    if kind == "events":
        plain = [(name, arrow.string()) for name in ("kind", "module", "text")]
        return arrow.schema([("step", whole), *plain])
    return arrow.schema([("step", whole), ("epoch", whole), *of_series, *own[kind]])


def pyarrow(module: str) -> Any:  # it may not be there to be typed
    """pyarrow, or a module of it.

    Raises:
        ImportError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError("pyarrow is not installed: pip install 'taiyi-fx[parquet]'") from error
