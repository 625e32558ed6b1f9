"""Fields of categories that one embedding looks up, each from its first row on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from taiyi_fx.findings.facts.autograd import Uses, name_of, saved_by

_FEWEST, _MOST = 3, 100
"""Fields of which the sizes are no chance."""
_SAMPLES = 32
"""Samples that show nearly all categories of a field."""
_NEARLY, _SHARE = 0.8, 0.7
"""The share of an embedding's rows that all fields have together, and the most that one has."""
_UNLIKE = 2
"""Times the smallest field: those of words in a sequence are all alike."""


class Fields(NamedTuple):
    """Fields whose categories are counted from 0 each, and which together have as many as rows.

    Attributes:
        module: The embedding.
        rows: Its rows.
        sizes: The categories of each field that a batch shows: one more than the largest index.
    """

    module: str
    rows: int
    sizes: tuple[int, ...]


def overlapping_fields(uses: Uses) -> Iterator[Fields]:
    """The embeddings that are given fields without an offset, by the indices that autograd saved.

    Args:
        uses: The functions that made the loss.
    """
    for node in uses.nodes:
        indices = saved_by(node, "indices") if name_of(node) == "Embedding" else None
        if indices is None or indices.ndim != 2 or len(indices) < _SAMPLES:
            continue
        rows = int(node._saved_weight_sym_argsize_0)
        if _FEWEST <= indices.shape[1] <= _MOST:
            sizes = tuple(int(n) + 1 for n in indices.amax(0).tolist())
            is_whole = _NEARLY * rows <= sum(sizes) <= rows and max(sizes) <= _SHARE * rows
            if is_whole and max(sizes) >= _UNLIKE * min(sizes):
                yield Fields(uses.owner(node), rows, sizes)
