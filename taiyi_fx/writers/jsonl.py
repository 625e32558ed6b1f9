"""Records, events and epochs as JSON, an object a line."""

from __future__ import annotations

import dataclasses
import json
import operator
import os
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from taiyi_fx.records.record import Record
from taiyi_fx.writers.continued import Continued, TextFile
from taiyi_fx.writers.protocol import Batch, RunInfo
from taiyi_fx.writers.values import json_value

_ENCODE = json.JSONEncoder(allow_nan=False).encode


class JSONL(TextFile):
    """Writes an object a line: records, events (``"event"``) and ends of epochs (``"summary"``).

    A record has step, epoch, mode, module, quantity and value; for tensors, whose value is a
    nested list, dtype and shape too. JSON has neither NaN nor Inf: they become the texts ``"NaN"``,
    ``"Infinity"`` and ``"-Infinity"``. A run that starts at step n keeps the file's lines of
    earlier steps.

    Args:
        path: The file.
        overwrite: Replace what it holds where the run starts at step 0.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        super().__init__(path, overwrite=overwrite)
        self._last = 0

    def open(self, run: RunInfo) -> None:
        """Opens the file.

        Raises:
            FileExistsError: It holds records, and the run starts at step 0.
            ValueError: It exists and holds something else.
        """
        self._last = max(run.start_step - 1, 0)

        def keep(lines: Iterator[str]) -> Iterator[str]:
            for number, line in enumerate(lines, start=1):
                if self._stays(_step(line, f"{self._path}, line {number}"), run):
                    yield line

        self._lines = Continued(self._path, keep)

    def write(self, batch: Batch) -> None:
        """Adds a line for each record, event, and series of an epoch that ended."""
        self._last = max([self._last, *(record.step for record in batch)])
        lines = "".join(f"{_ENCODE(entry)}\n" for entry in self._entries(batch))
        self._lines.add(lines, batch)

    def _entries(self, batch: Batch) -> Iterator[dict[str, Any]]:
        for record in batch:
            yield _entry(record, batch.epoch)
        for step, kind, module, text in batch.events:
            yield {
                "step": step,
                "epoch": batch.epoch,
                "event": kind,
                "module": module,
                "text": text,
            }
        for summary in batch.ended.summaries if batch.ended else ():
            statistics = {
                name: json_value(value) for name, value in dataclasses.asdict(summary).items()
            }
            series = {
                name: statistics.pop(name) for name in ("epoch", "mode", "module", "quantity")
            }
            yield {"step": self._last, **series, "summary": statistics}


def _entry(record: Record, epoch: int) -> dict[str, Any]:
    value = record.value
    entry = {"step": record.step, "epoch": epoch, "mode": record.mode}
    entry |= {"module": record.module, "quantity": record.quantity, "value": json_value(value)}
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        entry |= {"dtype": dtype, "shape": list(value.shape)}
    return entry


def _step(line: str, where: str) -> int:
    try:
        return operator.index(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{where}: this is not a record: {line.rstrip()[:80]!r}. Move the file away, or give "
            "another path"
        ) from error
