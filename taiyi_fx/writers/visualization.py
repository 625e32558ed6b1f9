"""Taiyi's way to W&B: a step is logged by a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from taiyi_fx.records.record import Record
from taiyi_fx.writers.protocol import Batch, Event, RunInfo, Writer
from taiyi_fx.writers.wandb import WandB


class RecordSource(Protocol):
    """The part of a `taiyi_fx.Monitor` that its records come from."""

    def add_writer(self, writer: Writer) -> None:
        """Adds a writer, which gets all records from here on."""
        ...

    def flush(self) -> None:
        """Waits for values that are still being computed."""
        ...


class Visualization:
    """Logs records of a monitor to W&B, step by step, as Taiyi's class of this name does.

    A step's values make a row of their own, over ``taiyi_fx/step``; see `taiyi_fx.writers.WandB`,
    which needs no call a step.

    Args:
        monitor: The monitor, whose records from here on can be shown.
        wandb: The package ``wandb``, after ``wandb.init``, or a run of it.

    Raises:
        ImportError: wandb is not installed.
    """

    def __init__(self, monitor: RecordSource, wandb: Any) -> None:
        self._monitor = monitor
        self._wandb = wandb
        self._waiting = _Waiting(WandB(wandb))
        monitor.add_writer(self._waiting)

    def show(self, step: int, ext: Mapping[str, Any] | None = None) -> None:
        """Logs the records of a step, and waits for those that are still being computed.

        Records of earlier steps that were not shown by then are dropped.

        Args:
            step: The step.
            ext: Values of your own, logged as by `log_ext`.
        """
        self._monitor.flush()
        self._waiting.show(step)
        if ext is not None:
            self.log_ext(ext)

    def log_ext(self, values: Mapping[str, Any]) -> None:
        """Logs values of your own: ``wandb.log``."""
        self._wandb.log(dict(values))

    def close(self) -> None:
        """Ends the run: ``wandb.finish``. The monitor goes on."""
        self._waiting.end()
        self._wandb.finish()


class _Waiting:
    """A writer that keeps steps, and passes one on when it is shown."""

    def __init__(self, inner: WandB) -> None:
        self._inner = inner
        self._steps: dict[int, list[Record | Event]] = {}
        self._epoch = 0
        self._has_ended = False

    def open(self, run: RunInfo) -> None:
        self._inner.open(run)

    def write(self, batch: Batch) -> None:
        if self._has_ended:
            return
        self._epoch = batch.epoch
        for entry in (*batch, *batch.events):
            self._steps.setdefault(entry.step, []).append(entry)

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def show(self, step: int) -> None:
        entries = self._steps.pop(step, [])
        records = [part for part in entries if isinstance(part, Record)]
        events = [part for part in entries if isinstance(part, Event)]
        if entries:
            self._inner.write(Batch(self._epoch, records=records, events=events))
        self._steps = {later: of for later, of in self._steps.items() if later > step}

    def end(self) -> None:
        self._has_ended = True
        self._steps.clear()
