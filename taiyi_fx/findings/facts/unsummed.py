"""Softmaxes of attention whose weights do not add up over what they weigh, in a loss's graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from taiyi_fx.findings.facts.autograd import (
    KEEPS,
    Uses,
    axis_of,
    is_scaled,
    makers_of,
    name_of,
    shape_of,
)

_PRODUCTS = ("Bmm", "Mm")
_KEEPS = KEEPS | {"NativeDropout"}
_SCALES = _KEEPS | {"Mul", "Div", "Add", "Sub", "MaskedFill"}
_HEADS = 4
"""Axes of attention's scores: samples, heads, queries and keys."""
_FAR = 12


def unsummed_softmaxes(uses: Uses) -> Iterator[Any]:
    """The softmaxes of scores of (samples, heads, queries, keys) over one of the last two axes,
    the product of which with values sums over the other.

    Not where something is computed of them before, as slots divide their weights by their sum, nor
    where there are not as many queries as keys: slots that compete for keys are fewer.

    Args:
        uses: The functions that made the loss.
    """
    for node in uses.nodes:
        shape = shape_of(node)
        if name_of(node) != "Softmax" or len(shape) != _HEADS or shape[-1] != shape[-2]:
            continue
        axis = axis_of(node._saved_dim, _HEADS)
        summed = _summed_over(uses, node)
        if axis >= _HEADS - 2 and summed is not None and summed != axis and _is_of_scores(node):
            yield node


def _summed_over(uses: Uses, node: Any) -> int | None:
    """The axis that the one product of a softmax's shares sums over; None if there is none."""
    is_turned = False
    for _ in range(_FAR):
        users = uses.users[id(node)]
        if len(users) != 1:
            return None
        (user, place), name = users[0], name_of(users[0][0])
        if name in _PRODUCTS:
            is_last = (place == 0) != is_turned
            return _HEADS - 1 if is_last else _HEADS - 2
        if name == "Transpose":
            ndim = len(shape_of(node))
            axes = {axis_of(saved, ndim) for saved in (user._saved_dim0, user._saved_dim1)}
            if axes != {ndim - 1, ndim - 2}:
                return None
            is_turned = not is_turned
        elif name not in _KEEPS and not is_scaled(user):
            return None
        if shape_of(user)[-2:] not in (shape_of(node)[-2:], shape_of(node)[-2:][::-1]):
            return None
        node = user
    return None


def _is_of_scores(softmax: Any) -> bool:
    """True for a softmax of what a product of two computed tensors makes, scaled and masked."""
    node = next(iter(makers_of(softmax)), None)
    for _ in range(_FAR):
        if node is None:
            return False
        if name_of(node) in _PRODUCTS:
            return len(makers_of(node)) > 1
        if name_of(node) not in _SCALES:
            return False
        node = next(iter(makers_of(node)), None)
    return False
