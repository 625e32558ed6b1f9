"""Messages that a model sends from row to row by indices, as from node to node of a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings.facts.autograd import (
    KEEPS,
    Uses,
    is_scaled,
    makers_of,
    name_of,
    operands_of,
    saved_by,
    saved_indices_by,
    shape_of,
)

_ADDING = frozenset({"IndexAdd", "ScatterAdd", "ScatterReduce", "IndexReduce", "IndexPut"})
"""Functions that put rows where an index says: the messages arrive."""
_TAKING = frozenset({"Index", "IndexSelect", "Gather"})
"""Functions that take rows from where an index says: the messages start."""
_INTEGERS = ("torch.int64", "torch.int32")
_MOST = 64
"""Functions between both that are looked at: those of a layer."""
_DIFFERENT = 0.75
"""The share of messages that may have a row of their own: a selection of rows has one for each."""
_FEW = 64
"""Messages fewer than which may be anything."""
_LARGEST, _MANY = 4_000_000, 500_000
"""And more than which take long to be looked through, and to be sorted."""
_SURE = 0.95
"""The share of edges with one back in a graph without directions: others have it by chance."""


class Messages(NamedTuple):
    """The messages that one layer sends from row to row.

    Attributes:
        module: The module whose parameters come next before it; empty if it is not known.
        rows: The rows there are.
        used: The rows there would have to be: one more than the largest index.
        comes_back: True if each arrives at the row that it started from, several at many rows.
        is_torn: True if starts and ends are like a list of pairs that was cut in two halves.
    """

    module: str
    rows: int
    used: int
    comes_back: bool = False
    is_torn: bool = False


def messages_of(uses: Uses) -> Iterator[Messages]:
    """The messages that each layer sends among the rows of a tensor, as many as rows or more.

    A row that sends itself something, as by a loop of a graph, does not count as used by that.
    Nothing after a backward, which frees indices, and of rows that nothing is computed to, as
    those of a first layer.

    Args:
        uses: The functions that made the loss.
    """
    for node in uses.nodes:
        target = _index_of(node) if name_of(node) in _ADDING else None
        shape = shape_of(node)
        if target is None or not shape or not max(_FEW, shape[0]) <= len(target) <= _LARGEST:
            continue
        rows = shape[0]
        taken = [(one, index) for one in _taken(node) if (index := _index_of(one)) is not None]
        starts = [x for one, x in taken if _rows_taken_of(one) == rows and len(x) == len(target)]
        if starts:
            module = uses.owner(node)
            others = [x for x in starts if not bool((x == target).all())]
            if others:
                used = _used([target, *others])
                yield Messages(module, rows, used, is_torn=_is_torn(others[0], target, rows))
            elif len(taken) == 1 and _is_given(node, taken[0][0]):
                repeated = len(target.unique()) <= _DIFFERENT * len(target)
                yield Messages(module, rows, rows, comes_back=repeated)


def _used(indices: list[Any]) -> int:
    """One more than the largest index, without those of messages from a row to itself."""
    target, *starts = indices
    ends = [(start[start != target], target[start != target]) for start in starts]
    return max((int(x.max()) + 1 for pair in ends for x in pair if len(x)), default=0)


def _is_torn(start: Any, target: Any, rows: int) -> bool:
    """True if pairs of both in the order of memory are like edges, and pairs across are not.

    As of a list of pairs that was reshaped to two rows, where a transpose was meant.
    """
    start, target = start.cpu().numpy(), target.cpu().numpy()
    if len(start) > rows and np.array_equal(start[-rows:], np.arange(rows)):
        start, target = start[:-rows], target[:-rows]  # without the loops that were added
    if not _FEW <= len(start) <= _MANY or _are_edges(start, target):
        return False
    orders = np.concatenate([start, target]), np.concatenate([target, start])
    return any(_are_edges(pairs[::2], pairs[1::2]) for pairs in orders)


def _are_edges(start: NDArray[np.int64], target: NDArray[np.int64]) -> bool:
    """True if nearly each edge has one that leads back, or all lead the same way."""
    if (start < target).all() or (start > target).all():
        return True
    rows = 1 + max(start.max(), target.max())
    return bool(np.isin(target * rows + start, start * rows + target).mean() > _SURE)


def _index_of(node: Any) -> Any:
    """The rows that a function takes, or puts something into, one number each; None if unknown."""
    if name_of(node) in ("Index", "IndexPut"):
        first, *others = saved_indices_by(node) or (None,)
        if first is None or any(other is not None for other in others):
            return None
        return first if first.ndim == 1 and str(first.dtype) in _INTEGERS else None
    index = saved_by(node, "index")
    if index is None or node._saved_dim != 0 or not index.numel():
        return None
    return index.reshape(len(index), -1)[:, 0] if index.ndim else None


def _rows_taken_of(node: Any) -> int:
    """The number of rows of what a function takes some of; 0 if it is not known."""
    table = operands_of(node)[0]
    known = getattr(node, "_saved_self_sym_sizes", None) or shape_of(table)
    return int(known[0]) if known else 0


def _taken(node: Any) -> list[Any]:
    """The functions that take rows which a function puts elsewhere, with nothing such between."""
    left, found = [*makers_of(node)], dict[int, Any]()
    seen = set[int]()
    while left and len(seen) < _MOST:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if name_of(one) in _TAKING:
            found[id(one)] = one
        elif name_of(one) not in _ADDING:
            left += makers_of(one)
    return [*found.values()]


def _is_given(node: Any, taken: Any) -> bool:
    """True if what a function puts elsewhere is what was taken, as it is or times constants."""
    given = makers_of(node)[-1:]
    while given and given[0] is not taken:
        keeps = name_of(given[0]) in KEEPS or is_scaled(given[0])
        given = makers_of(given[0])[:1] if keeps else []
    return bool(given)
