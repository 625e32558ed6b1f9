"""``taiyi-fx export``: a run's numbers as a table in a file."""

from __future__ import annotations

import csv
import json
import os
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from taiyi_fx.atomic_write import atomic_write
from taiyi_fx.cli.command import Commands, command
from taiyi_fx.cli.opening import opened
from taiyi_fx.cli.printing import many, say
from taiyi_fx.cli.refused import Refused
from taiyi_fx.records.json_number import json_number

_EXAMPLES = """
taiyi-fx export runs/exp1 -o exp1.csv
taiyi-fx export runs/exp1 -o exp1.jsonl --force
taiyi-fx export runs/exp1 -o exp1.parquet
"""
_SLICE = 100_000
"""Rows that are Python's objects at a time."""

Columns = Mapping[str, Any]


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    added = command(
        commands, "export", "write a run's numbers to a file, a row each", _run, _EXAMPLES
    )
    added.add_argument("path", metavar="RUN", help="the run's folder")
    added.add_argument(
        "-o", "--output", metavar="FILE", required=True, help=".csv, .jsonl or .parquet"
    )
    added.add_argument("--force", action="store_true", help="replace FILE if it is there")


def _run(given: Namespace) -> int:
    file = Path(given.output)
    write = {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet}.get(file.suffix.lower())
    if write is None:
        raise Refused(f"{given.output}: FILE ends in .csv, .jsonl or .parquet")
    if os.path.lexists(file) and not given.force:
        raise Refused(f"{given.output} is there already: --force replaces it")
    with opened(given.path) as run:
        columns = run.to_numpy()
        tensors = sum(span.numbers for span in run.spans().values()) - len(columns["step"])
    try:
        with atomic_write(file) as part:
            write(part, columns)
    except (OSError, ImportError) as error:
        raise Refused(str(error)) from error
    left = f"; {many(tensors, 'tensor')} left out" if tensors > 0 else ""
    say(f"{given.output}: {many(len(columns['step']), 'number')}{left}")
    return 0


def _csv(file: Path, columns: Columns) -> None:
    with file.open("x", encoding="utf-8", newline="") as stream:
        # All texts are quoted, as names may hold ends of lines.
        rows = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        rows.writerow(columns)
        rows.writerows(_rows(columns))


def _jsonl(file: Path, columns: Columns) -> None:
    names = list(columns)
    encode = json.JSONEncoder(allow_nan=False).encode
    with file.open("x", encoding="utf-8") as stream:
        for row in _rows(columns):
            entry = dict(zip(names, row, strict=True))
            entry["value"] = json_number(entry["value"])
            stream.write(encode(entry) + "\n")


def _parquet(file: Path, columns: Columns) -> None:
    from taiyi_fx.runs.parquet import pyarrow

    arrow = pyarrow("pyarrow")
    texts = ("module", "quantity", "mode", "direction", "unit", "flag")
    arrays = {
        name: arrow.array(column, arrow.string()).dictionary_encode()
        if name in texts
        else arrow.array(column)
        for name, column in columns.items()
    }
    pyarrow("pyarrow.parquet").write_table(arrow.table(arrays), file)


def _rows(columns: Columns) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(columns["step"]), _SLICE):
        parts = (column[start : start + _SLICE].tolist() for column in columns.values())
        yield from zip(*parts, strict=True)
