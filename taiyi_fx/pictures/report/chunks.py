"""Parts of a report's data: what they hold, as JSON, and their numbers, as bytes."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.pictures.report.fold import Folded, Numbers, fold, widths
from taiyi_fx.pictures.report.gathered import Group

LONGEST_VECTOR = 4096
"""Longer vectors, and images, are left out."""


class Chunk(NamedTuple):
    """A part of the data that a page decodes at once.

    Attributes:
        entry: What it holds, as JSON takes it.
        arrays: Its numbers, little-endian, in the order that the entry has them.
    """

    entry: dict[str, Any]
    arrays: tuple[NDArray[Any], ...]

    def data(self) -> bytes:
        """The arrays, one after the other."""
        return b"".join(array.tobytes() for array in self.arrays)

    def text(self) -> str:
        """The arrays as zlib's format in base64, as they stand in a page."""
        return base64.b64encode(zlib.compress(self.data())).decode("ascii")


def width_for(groups: Sequence[Group], budget: int) -> int:
    """How many steps a column holds for all groups to fit: 1, or a round number.

    Args:
        groups: What there is to show.
        budget: Bytes, before they are compressed.
    """
    told = [(len(g.series) * g.kind.itemsize, g.steps()) for g in groups]
    for width in widths():
        columns = [len(np.unique(steps // width)) for _, steps in told]
        size = sum(row * many for (row, _), many in zip(told, columns, strict=True))
        # Steps on both sides of zero always take two.
        if (size if width == 1 else 3 * size) <= budget or max(columns) <= 2:
            return width
    raise AssertionError("round numbers have no end")


def numbers_chunk(
    entry: Mapping[str, Any], numbers: Numbers, kind: np.dtype[Any], width: int
) -> Chunk:
    """A chunk of one quantity's numbers in one mode; of its arrays those that say something.

    Args:
        entry: What is known of it.
        numbers: They.
        kind: The type of means and extremes.
        width: How many steps a column holds.
    """
    folded = fold(numbers, width)
    arrays = dict(_arrays(folded, kind))
    rows, columns = folded.mean.shape
    shape = {"kind": "numbers", "rows": rows, "columns": columns, "raw": folded.is_raw}
    return _chunk({**entry, **shape}, arrays)


def _arrays(folded: Folded, kind: np.dtype[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    yield "start", folded.start.astype("<f8")
    yield "end", folded.end.astype("<f8")
    yield "mean", folded.mean.astype(kind)
    if not folded.is_raw:
        yield "min", folded.min.astype(kind)
        yield "max", folded.max.astype(kind)
        yield "count", folded.count.astype("<u4")
    for name, found in (("nan", folded.nan), ("inf", folded.inf)):
        if found.any():
            yield name, found.astype("<u4")


def tensors_chunk(entry: Mapping[str, Any], found: Mapping[int, NDArray[Any]]) -> Chunk:
    """A chunk of one series' vectors, float32, NaN after the end of shorter ones.

    What is too large for float32 is infinite; complex elements are taken by their absolute
    value. A ``Histogram`` is without what is not
    finite, and without the bins that stay empty on both sides; those next to zero's, where they
    stay empty too, are one with it.

    Args:
        entry: What is known of it.
        found: Vectors by step.
    """
    vectors = {step: _real(x).reshape(-1) for step, x in sorted(found.items())}
    length = np.array([len(x) for x in vectors.values()], "<u4")
    values = np.full((len(vectors), int(length.max(initial=0))), np.nan, "<f4")
    with np.errstate(over="ignore"):
        for row, x in zip(values, vectors.values(), strict=True):
            row[: len(x)] = x
    bins: dict[str, Any] = {"kind": "index"}
    if entry["quantity"].endswith("Histogram") and values.shape[1] == len(_EDGES) + 2:
        edges, values = _trimmed(values)
        bins = {"kind": "edges", "edges": edges.tolist()}
        length[:] = values.shape[1]
    arrays = {"step": np.array(list(vectors), "<f8"), "length": length, "values": values}
    shape = {"kind": "tensors", "rows": 1, "columns": len(vectors), "raw": True, "bins": bins}
    return _chunk({**entry, **shape}, arrays)


_POWERS = 2.0 ** np.arange(-126, 129)
_EDGES = np.concatenate([-_POWERS[::-1], [0, 0], _POWERS])
"""Between which the finite bins of a ``Histogram`` lie: `taiyi_fx.reductions.histogram_edges`."""


_ZERO = len(_POWERS)
"""The bin of zero alone, among the finite ones."""


def _trimmed(counts: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Edges and counts without empty bins outside; those around zero are one with it."""
    finite = counts[:, 1:-2]
    (filled,) = np.nonzero(finite.any(axis=0))
    if not len(filled):
        return _EDGES[:1], finite[:, :0]
    first, last = filled[0], filled[-1] + 1
    nearest = np.abs(filled[filled != _ZERO] - _ZERO).min(initial=_ZERO)
    edges = np.arange(first, last + 1)
    is_needed = np.abs(edges - _ZERO - 0.5) > nearest - 1
    is_needed[[0, -1]] = True
    kept = edges[is_needed]
    return _EDGES[kept], np.add.reduceat(finite[:, :last], kept[:-1], axis=1)


def _real(x: NDArray[Any]) -> NDArray[Any]:
    return np.abs(x) if np.iscomplexobj(x) else x


def _chunk(entry: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Chunk:
    told = [
        {"name": name, "dtype": x.dtype.str, "shape": list(x.shape)} for name, x in arrays.items()
    ]
    return Chunk({**entry, "arrays": told}, tuple(arrays.values()))
