"""Records as a table in a CSV file, a line for each."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from taiyi_fx.records.record import Value
from taiyi_fx.writers.continued import Continued, TextFile
from taiyi_fx.writers.protocol import Batch, RunInfo
from taiyi_fx.writers.values import json_value

COLUMNS = ("step", "epoch", "mode", "module", "quantity", "value")


class CSV(TextFile):
    """Writes records to a CSV file: step, epoch, mode, module, quantity and value.

    NaN and Inf are ``nan``, ``inf`` and ``-inf``; a tensor is a nested list, as JSON has it.
    Texts are quoted. A run that starts at step n keeps the file's lines of earlier steps.

    Args:
        path: The file.
        overwrite: Replace what it holds where the run starts at step 0.
    """

    def open(self, run: RunInfo) -> None:
        """Opens the file.

        Raises:
            FileExistsError: It holds records, and the run starts at step 0.
            ValueError: It exists and is not such a table.
        """

        def keep(lines: Iterator[str]) -> Iterator[str]:
            rows = _rows(lines, self._path)
            yield from (text for _, text in itertools.islice(rows, 1))
            for row, text in rows:
                if self._stays(_step(row, text, self._path), run):
                    yield text

        self._lines = Continued(self._path, keep)
        if not self._lines.file.tell():
            self._lines.add(",".join(COLUMNS) + "\n")

    def write(self, batch: Batch) -> None:
        """Adds a line for each record."""
        lines = io.StringIO(newline="")
        # All texts are quoted, as names may hold ends of lines.
        rows = csv.writer(lines, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        rows.writerows(
            (r.step, batch.epoch, r.mode, r.module, r.quantity, _cell(r.value)) for r in batch
        )
        self._lines.add(lines.getvalue(), batch)


def _cell(value: Value) -> float | int | str:
    return json.dumps(json_value(value)) if isinstance(value, Tensor) else value


def _step(row: list[str], text: str, path: Path) -> int:
    try:
        step, _, _, _, _, _ = row
        return int(step)
    except ValueError as error:
        raise ValueError(
            f"{path}: this is not a record: {text.rstrip()[:80]!r}. Move the file away, or give "
            "another path"
        ) from error


def _rows(lines: Iterator[str], path: Path) -> Iterator[tuple[list[str], str]]:
    """The rows of a table, the head first, each with its text in the file."""
    taken: list[str] = []
    reader = csv.reader((taken.append(line) or line for line in lines), strict=True)
    is_head = True
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            if next(lines, None) is None:
                return  # cut off within a name
            raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
        if row is None:
            return
        if is_head and tuple(row) != COLUMNS:
            raise ValueError(
                f"{path} is not a table of records: its first line is {taken[0].rstrip()!r}. "
                "Move it away, or give another path"
            )
        is_head = False
        yield row, "".join(taken)
        taken.clear()
