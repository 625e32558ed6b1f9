"""The values of a step as one dictionary, as dashboards take them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from taiyi_fx.records.record import Record
from taiyi_fx.writers.bins import bins_of
from taiyi_fx.writers.names import OWN, Tags
from taiyi_fx.writers.png import pixels
from taiyi_fx.writers.protocol import Batch, RunInfo
from taiyi_fx.writers.values import as_image, number

STEP = f"{OWN}/step"
EPOCH = f"{OWN}/epoch"


class StepValues:
    """Batches as the values that a dashboard logs.

    Args:
        run: The run.
        package: The dashboard's package, with its ``Histogram`` and ``Image``.
        images: The quantities whose tensors of two axes are pictures.
    """

    def __init__(self, run: RunInfo, package: Any, images: Collection[str]) -> None:
        self._tags = Tags(run)
        self._describe = run.describe
        self._package = package
        self._images = frozenset(images)

    def of(self, batch: Batch) -> dict[int, dict[str, Any]]:
        """All values of each step by tag, with its events as texts."""
        steps: dict[int, dict[str, Any]] = {}
        for record in batch:
            steps.setdefault(record.step, {}).update(self._of_record(record))
        for step, kind, module, text in batch.events:
            values, tag = steps.setdefault(step, {}), f"{OWN}/{kind}"
            line = f"{module or 'the model'}: {text}"
            values[tag] = f"{values[tag]}\n{line}" if tag in values else line
        return steps

    def _of_record(self, record: Record) -> Iterator[tuple[str, Any]]:
        tag = self._tags.of((record.module, record.quantity), record.mode)
        value, picture = number(record.value), as_image(record, self._images)
        if value is not None:
            yield tag, value
        elif picture is not None:
            yield tag, self._package.Image(pixels(picture).numpy())
        else:
            series = record.module, record.quantity
            bins = bins_of(record, self._describe(series).unit)
            if len(bins.counts):
                yield tag, self._package.Histogram(np_histogram=(bins.counts, bins.edges))
            if bins.not_finite:
                yield f"{tag}/not finite", bins.not_finite
