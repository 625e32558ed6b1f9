"""The ways from a loss back: which parameters it reaches, and what it takes of a sequence."""

from __future__ import annotations

from typing import Any, NamedTuple

from taiyi_fx.findings.facts.autograd import (
    Uses,
    all_before,
    axis_of,
    makers_of,
    name_of,
    operands_of,
    shape_of,
)

_CHOICES = ("NllLoss", "NllLoss2D", "NllLossNd", "BinaryCrossEntropyWithLogits")
_SEQUENCE = 3
"""Axes of what has samples, places and features."""
_FAR = 30
_LAYERS = ("Addmm", "Mm", "Bmm", "Convolution")
_TAKING = ("Index", "IndexSelect")
_NEAR = 5
"""Functions between a loss and what it takes of its model's output: a mean, the loss, a softmax."""


def reached_by(uses: Uses) -> frozenset[str]:
    """The modules with parameters that the one cross entropy of a loss depends on.

    All that the loss does, where it has no cross entropy, or several. Terms beside it, as those
    that balance experts, teach nothing of the task.

    Args:
        uses: The functions that made the loss.
    """
    ends = [node for node in uses.nodes if name_of(node) in _CHOICES]
    start = ends if len(ends) == 1 else uses.nodes[:1]
    leaves = (getattr(node, "variable", None) for node in all_before(start))
    names = (uses.parameters.get(id(leaf), "") for leaf in leaves)
    return frozenset(name for name in names if name)


def takes_rows(uses: Uses) -> bool:
    """True for a loss of some rows alone that an index takes of what the last layer returns.

    As of the nodes of a graph that are trained on.

    Args:
        uses: The functions that made the loss.
    """
    way = uses.nodes[:1]
    for _ in range(_NEAR):
        if len(way) != 1 or name_of(way[0]) in _LAYERS:
            return False
        if name_of(way[0]) in _TAKING:
            given = tuple(map(int, way[0]._saved_self_sym_sizes))
            return given[1:] == shape_of(way[0])[1:] and len(given) == len(shape_of(way[0]))
        way = makers_of(way[0])
    return False


class Terms(NamedTuple):
    """The terms of a loss.

    Attributes:
        trained: The number of those with a gradient.
        has_constant: True if one has none: a number, which may be the 0 that a sum begins with, or
            a tensor; autograd knows no more of it.
    """

    trained: int = 0
    has_constant: bool = False


def first_place(uses: Uses) -> str | None:
    """The module before a selection of the first place of each sequence, if a loss takes it alone.

    None if it takes others, too, or it is not known.

    Args:
        uses: The functions that made the loss.
    """
    return _only_place(0, uses)


def last_place(uses: Uses) -> str | None:
    """The module before a selection of the last place of each sequence, likewise."""
    return _only_place(-1, uses)


def _only_place(index: int, uses: Uses) -> str | None:
    ends = [node for node in uses.nodes if name_of(node) in _CHOICES]
    level, taken, seen = ends, list[Any](), {id(node) for node in ends}
    if len(ends) != 1:
        return None
    for _ in range(_FAR):
        taken += [node for node in level if _is_place(node, index)]
        rest = [node for node in level if not _is_place(node, index)]
        if any(len(shape_of(node)) >= _SEQUENCE for node in rest):
            return None
        level = [
            *{id(x): x for node in rest for x in makers_of(node) if id(x) not in seen}.values()
        ]
        seen |= {id(node) for node in level}
    return uses.owner(taken[0]) if taken and not level else None


def _is_place(node: Any, index: int) -> bool:
    """True for the entries of a sequence at its first place, 0, or its last, -1."""
    if name_of(node) != "Select":
        return False
    ndim, sizes = len(shape_of(node)) + 1, node._saved_self_sym_sizes
    if ndim < _SEQUENCE or axis_of(node._saved_dim, ndim) != 1:
        return False
    return axis_of(node._saved_index, int(sizes[1])) == index % int(sizes[1])


def is_made_anew(uses: Uses) -> bool:
    """True for a tensor of one number that is a leaf, and for what is made of it alone.

    Args:
        uses: The functions that made the loss.
    """
    loss = uses.number
    ends = (getattr(node, "variable", None) for node in uses.nodes)
    leaves = [one for one in ends if one is not None]
    if getattr(loss, "is_leaf", False):
        leaves = [loss] if loss.requires_grad else []
    return len(leaves) == 1 and leaves[0].numel() == 1 and id(leaves[0]) not in uses.parameters


def terms_of(uses: Uses) -> Terms:
    """The terms that a loss is the sum of, or a multiple of such a sum.

    Args:
        uses: The functions that made the loss.
    """
    level = {id(node): node for node in uses.nodes[:1]}
    seen, count, has_constant = set[int](), 0, False
    while level:
        _, node = level.popitem()
        seen.add(id(node))
        is_sum = name_of(node) in ("Add", "Sub")
        has_constant |= is_sum and None in operands_of(node)
        if not shape_of(node) and (is_sum or name_of(node) in ("Mul", "Div")):
            level |= {id(x): x for x in makers_of(node) if id(x) not in seen}
        else:
            count += 1
    return Terms(count, has_constant)
