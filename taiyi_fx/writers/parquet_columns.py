"""Items of a run as the columns of its tables in Parquet: numbers, tensors and events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.runs.parquet import pyarrow
from taiyi_fx.runs.schema import StoredSeries, as_bytes
from taiyi_fx.runs.source import FLAGS, flags
from taiyi_fx.writers.buffer import StepEvent, StepNumbers, StepTensor

_TEXTS = ("module", "quantity", "mode", "direction", "unit")


class OfSeries:
    """The columns that describe series, which each of their points repeats."""

    def __init__(self, known: Sequence[StoredSeries]) -> None:
        self._calls = np.array([s.call for s in known], np.int64)
        self._texts: dict[str, tuple[list[str], NDArray[np.int32]]] = {}
        for name in _TEXTS:
            texts = [getattr(s, name) for s in known]
            places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
            self._texts[name] = list(places), np.array([places[t] for t in texts], np.int32)

    def columns(self, series: NDArray[np.int64]) -> dict[str, Any]:
        """The columns for points of these series, whose ids begin at 1."""
        rows = series - 1
        made = pyarrow("pyarrow").DictionaryArray.from_arrays
        texts = {name: made(codes[rows], words) for name, (words, codes) in self._texts.items()}
        return {"series": series, "call": self._calls[rows], **texts}


def _of_numbers(items: Sequence[StepNumbers], of_series: OfSeries) -> dict[str, Any]:
    sizes = [x.size for x in items]
    # Most steps have the same series, in the same list.
    lists = {id(x.series): x.series for x in items}
    once = {key: np.array(ids, np.int64) for key, ids in lists.items()}
    values = np.concatenate([np.array(x.values, np.float64) for x in items])
    return {
        "step": np.repeat(np.array([x.step for x in items], np.int64), sizes),
        "epoch": np.repeat(np.array([x.epoch for x in items], np.int64), sizes),
        **of_series.columns(np.concatenate([once[id(x.series)] for x in items])),
        "value": values,
        "integer": _integers(items, len(values)),
        "flag": _flags(values),
    }


def _flags(values: NDArray[np.float64]) -> Any:  # pyarrow's own
    arrow = pyarrow("pyarrow")
    found = flags(values).astype(np.int32)
    codes = arrow.array(found - 1, mask=found == 0)
    return arrow.DictionaryArray.from_arrays(codes, FLAGS[1:])


def _integers(items: Sequence[StepNumbers], count: int) -> Any:  # pyarrow's own
    """The column of exact integers; null for other numbers and for those beyond 64 bits."""
    if all(set(map(type, x.values)) == {float} for x in items):
        return pyarrow("pyarrow").nulls(count, "int64")
    return [
        int(v) if not isinstance(v, float) and -(2**63) <= v < 2**63 else None
        for x in items
        for v in x.values
    ]


def _of_arrays(items: Sequence[StepTensor], of_series: OfSeries) -> dict[str, Any]:
    return {
        "step": [x.step for x in items],
        "epoch": [x.epoch for x in items],
        **of_series.columns(np.array([x.series for x in items], np.int64)),
        "dtype": [x.value.dtype.name for x in items],
        "shape": [list(x.value.shape) for x in items],
        "data": [as_bytes(x.value) for x in items],
    }


def _of_events(items: Sequence[StepEvent], of_series: OfSeries) -> dict[str, Any]:
    del of_series  # events belong to no series
    return {name: [getattr(x, name) for x in items] for name in StepEvent._fields}


COLUMNS: Mapping[str, tuple[type, Callable[[Any, OfSeries], dict[str, Any]]]] = {
    "points": (StepNumbers, _of_numbers),
    "tensors": (StepTensor, _of_arrays),
    "events": (StepEvent, _of_events),
}
"""Each kind of part: the items that it holds, and the function that makes columns of them."""
