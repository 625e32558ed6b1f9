"""Records to TensorBoard: one event a step, with all its values."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from taiyi_fx.passes.ir import Mode
from taiyi_fx.quantities.stock.images import IMAGES
from taiyi_fx.records.record import Record
from taiyi_fx.writers.bins import Bins, bins_of
from taiyi_fx.writers.import_optional import import_optional
from taiyi_fx.writers.names import EPOCHS, EVALUATION, OWN, Tags
from taiyi_fx.writers.png import png
from taiyi_fx.writers.protocol import Batch, EpochEnd, Event, RunInfo
from taiyi_fx.writers.values import as_image, number


class TensorBoard:
    """Writes TensorBoard's event files.

    Tags are ``quantity/module``, so that TensorBoard shows a quantity's modules together. Numbers
    become scalars (float32, as TensorBoard keeps them), tensors histograms of their finite
    elements with the count of the others as the scalar ``quantity/module/not finite``, pictures
    images, and events texts. Records of evaluation mode are a run of their own,
    ``evaluation``, whose curves TensorBoard draws in the same charts.

    A run that starts at step n has TensorBoard hide its earlier data of later steps.

    Args:
        path: The run's folder.
        epochs: True to write the mean, smallest and largest value of each epoch as well, by
            the epoch's number, in a run ``epochs``.
        images: The quantities whose tensors of two axes are pictures.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        epochs: bool = False,
        images: Collection[str] = IMAGES,
    ) -> None:
        self._path = Path(path)
        self._epochs = epochs
        self._images = frozenset(images)
        self._files: dict[str, Any] = {}

    def open(self, run: RunInfo) -> None:
        """Opens an event file in the folder.

        Raises:
            ImportError: TensorBoard is not installed.
        """
        self._events = import_optional("tensorboard.compat.proto.event_pb2", "tensorboard")
        self._summaries = import_optional("tensorboard.compat.proto.summary_pb2", "tensorboard")
        self._text = import_optional("tensorboard.plugins.text.summary_v2", "tensorboard").text_pb
        self._file = import_optional(
            "tensorboard.summary.writer.event_file_writer", "tensorboard"
        ).EventFileWriter
        self._tags = Tags(run)
        self._describe = run.describe
        self._start = run.start_step
        facts = {"model": run.model, "versions": run.versions, "seed": run.seed}
        config = json.dumps({**facts, "config": run.config}, indent=1)
        values = self._text(f"{OWN}/run", f"```\n{config}\n```").value
        self._add(self._opened("", self._start), self._start, values)
        if (self._path / EVALUATION).exists():
            self._opened(EVALUATION, self._start)

    def write(self, batch: Batch) -> None:
        """Adds an event for each step and mode, with all values."""
        values: dict[tuple[Mode, int], list[Any]] = {}
        for record in batch:
            values.setdefault((record.mode, record.step), []).extend(self._values(record))
        for (mode, step), of_step in values.items():
            run = EVALUATION if mode == "eval" else ""
            self._add(self._opened(run, self._start), step, of_step)
        self._add_events(batch.events)
        if batch.ended and self._epochs:
            self._add_epoch(batch.ended)

    def flush(self) -> None:
        """Brings the events to the disk."""
        for file in self._files.values():
            file.flush()

    def close(self) -> None:
        """Closes the event files."""
        for file in self._files.values():
            file.close()

    def _opened(self, run: str, start: int) -> Any:
        """The event file of a run, opened at its first step; earlier data after it are hidden."""
        if run not in self._files:
            self._files[run] = file = self._file(str(self._path / run))
            if start:  # at step 0 this would hide all runs that others have written there
                status = self._events.SessionLog(status=self._events.SessionLog.START)
                file.add_event(
                    self._events.Event(wall_time=time.time(), step=start, session_log=status)
                )
        return self._files[run]

    def _add(self, file: Any, step: int, values: Iterable[Any]) -> None:
        summary = self._summaries.Summary(value=values)
        file.add_event(self._events.Event(wall_time=time.time(), step=step, summary=summary))

    def _values(self, record: Record) -> list[Any]:
        tag = self._tags.of((record.module, record.quantity))
        make, value = self._summaries.Summary.Value, number(record.value)
        if value is not None:
            return [make(tag=tag, simple_value=value)]
        picture = as_image(record, self._images)
        if picture is not None:
            height, width = picture.shape
            image = self._summaries.Summary.Image(
                height=height, width=width, colorspace=3, encoded_image_string=png(picture)
            )
            return [make(tag=tag, image=image)]
        bins = bins_of(record, self._describe((record.module, record.quantity)).unit)
        found = [make(tag=tag, histo=self._histogram(bins))] if len(bins.counts) else []
        if bins.not_finite:
            found.append(make(tag=f"{tag}/not finite", simple_value=bins.not_finite))
        return found

    def _histogram(self, bins: Bins) -> Any:
        middle = bins.edges[1:] / 2 + bins.edges[:-1] / 2
        with np.errstate(over="ignore"):
            sums = (bins.counts * middle).sum(), (bins.counts * middle**2).sum()
        return self._summaries.HistogramProto(
            min=bins.edges[0],
            max=bins.edges[-1],
            num=bins.counts.sum(),
            sum=sums[0],
            sum_squares=sums[1],
            bucket_limit=bins.edges[1:],
            bucket=bins.counts,
        )

    def _add_events(self, events: Iterable[Event]) -> None:
        lines: dict[tuple[str, int], list[str]] = {}
        for step, kind, module, text in events:
            lines.setdefault((kind, step), []).append(f"{module or 'the model'}: {text}")
        for (kind, step), texts in lines.items():
            values = self._text(f"{OWN}/{kind}", "\n\n".join(texts)).value
            self._add(self._opened("", self._start), step, values)

    def _add_epoch(self, ended: EpochEnd) -> None:
        make, values = self._summaries.Summary.Value, []
        for summary in ended.summaries:
            tag = self._tags.of((summary.module, summary.quantity), summary.mode)
            of_series = {"mean": summary.mean, "min": summary.min, "max": summary.max}
            for name, value in of_series.items():
                values.append(make(tag=f"{EPOCHS}/{tag}/{name}", simple_value=value))
        self._add(self._opened(EPOCHS, ended.number), ended.number, values)
