"""Chunks: parts of a report's data, each with a JSON entry and its numbers as bytes."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.pictures.report.downsample import Downsampled, Numbers, downsample, widths
from taiyi_fx.pictures.report.gathered import Group
from taiyi_fx.quantities.binned import EDGES, FINITE, OF_ZERO, are_counts

LONGEST_VECTOR = 4096
"""The longest vector that is shown; longer ones, and images, are left out."""


class Chunk(NamedTuple):
    """A part of the data that a page decodes at once.

    Attributes:
        entry: Its description as JSON data.
        arrays: Its numbers, little-endian, in the order of the entry.
    """

    entry: dict[str, Any]
    arrays: tuple[NDArray[Any], ...]

    def data(self) -> bytes:
        """The bytes of all arrays, one after the other."""
        return b"".join(array.tobytes() for array in self.arrays)

    def text(self) -> str:
        """The bytes compressed by zlib, as base64: the form that they have in a page."""
        return base64.b64encode(zlib.compress(self.data())).decode("ascii")


def width_for(groups: Sequence[Group], budget: int) -> int:
    """The number of steps in a column with which all groups fit: 1, or a round number.

    Args:
        groups: All groups of a run.
        budget: Bytes before compression.
    """
    sizes = [(len(g.series) * g.kind.itemsize, g.steps()) for g in groups]
    for width in widths():
        columns = [len(np.unique(steps // width)) for _, steps in sizes]
        size = sum(row * many for (row, _), many in zip(sizes, columns, strict=True))
        # Steps on both sides of zero always take two.
        if (size if width == 1 else 3 * size) <= budget or max(columns) <= 2:
            return width
    raise AssertionError("round numbers have no end")


def numbers_chunk(
    entry: Mapping[str, Any], numbers: Numbers, kind: np.dtype[Any], width: int
) -> Chunk:
    """A chunk of one quantity's numbers in one mode, without arrays that would be empty of news.

    Args:
        entry: The fields that are known already.
        numbers: The numbers.
        kind: The type of means and extremes.
        width: The number of steps in a column.
    """
    table = downsample(numbers, width)
    arrays = dict(_arrays(table, kind))
    rows, columns = table.mean.shape
    shape = {"kind": "numbers", "rows": rows, "columns": columns, "raw": table.is_raw}
    return _chunk({**entry, **shape}, arrays)


def _arrays(table: Downsampled, kind: np.dtype[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    yield "start", table.start.astype("<f8")
    yield "end", table.end.astype("<f8")
    yield "mean", table.mean.astype(kind)
    if not table.is_raw:
        yield "min", table.min.astype(kind)
        yield "max", table.max.astype(kind)
        yield "count", table.count.astype("<u4")
    for name, found in (("nan", table.nan), ("inf", table.inf)):
        if found.any():
            yield name, found.astype("<u4")


def tensors_chunk(
    entry: Mapping[str, Any], found: Mapping[int, NDArray[Any]], unit: str = ""
) -> Chunk:
    """A chunk of one series' vectors as float32, padded with NaN to the longest.

    Values too large for float32 become infinite; of complex elements the absolute value is taken.
    Counts by power of two lose the bins at both ends that are empty at all steps, and empty bins
    around zero are merged with the bin of zero. Their counts of NaN and of infinite values are
    arrays of their own, where there are any.

    Args:
        entry: The fields that are known already.
        found: Vectors by step.
        unit: The unit of the series.
    """
    vectors = {step: _real(x).reshape(-1) for step, x in sorted(found.items())}
    length = np.array([len(x) for x in vectors.values()], "<u4")
    values = np.full((len(vectors), int(length.max(initial=0))), np.nan, "<f4")
    with np.errstate(over="ignore"):
        for row, x in zip(values, vectors.values(), strict=True):
            row[: len(x)] = x
    bins: dict[str, Any] = {"kind": "index"}
    bad: dict[str, NDArray[Any]] = {}
    if are_counts(unit, values.shape[1]) and (length == length[0]).all():
        bad = {"nan": values[:, -1], "inf": values[:, 0] + values[:, -2]}
        edges, values = _trimmed(values)
        bins = {"kind": "edges", "edges": edges.tolist()}
        length[:] = values.shape[1]
    arrays = {"step": np.array(list(vectors), "<f8"), "length": length, "values": values}
    arrays |= {name: x.astype("<u4") for name, x in bad.items() if x.any()}
    shape = {"kind": "tensors", "rows": 1, "columns": len(vectors), "raw": True, "bins": bins}
    return _chunk({**entry, **shape}, arrays)


def _trimmed(counts: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Edges and counts without empty outer bins; empty bins around zero are merged with its bin."""
    finite = counts[:, FINITE]
    (filled,) = np.nonzero(finite.any(axis=0))
    if not len(filled):
        return EDGES[:1], finite[:, :0]
    first, last = filled[0], filled[-1] + 1
    nearest = np.abs(filled[filled != OF_ZERO] - OF_ZERO).min(initial=OF_ZERO)
    edges = np.arange(first, last + 1)
    is_needed = np.abs(edges - OF_ZERO - 0.5) > nearest - 1
    is_needed[[0, -1]] = True
    kept = edges[is_needed]
    return EDGES[kept], np.add.reduceat(finite[:, :last], kept[:-1], axis=1)


def _real(x: NDArray[Any]) -> NDArray[Any]:
    return np.abs(x) if np.iscomplexobj(x) else x


def _chunk(entry: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Chunk:
    described = [
        {"name": name, "dtype": x.dtype.str, "shape": list(x.shape)} for name, x in arrays.items()
    ]
    return Chunk({**entry, "arrays": described}, tuple(arrays.values()))
