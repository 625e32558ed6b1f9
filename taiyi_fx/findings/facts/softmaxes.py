"""Softmaxes over the samples, over an axis of one element, or over one of two axes of places.

Where samples lie on an axis, it leads to the mean of the loss; see `followed_axes.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from taiyi_fx.findings.facts.autograd import (
    Uses,
    axis_of,
    behind_factors,
    maker_of,
    name_of,
    shape_of,
)
from taiyi_fx.findings.facts.broadcasts import is_of_pairs
from taiyi_fx.findings.facts.followed_axes import lead_to_the_loss
from taiyi_fx.findings.facts.squashed import OF_LOGARITHMS

_SOFTMAXES = ("Softmax", "LogSoftmax")
_LAYERS = ("Addmm", "Mm", "Convolution")
_CHOOSING = ("Topk", "Gather", "Sort", "Kthvalue")
"""Functions that may choose one of several on purpose, of which a softmax makes a 1."""
_LEAF = "torch::autograd::AccumulateGrad"
_PLACES = 2
"""The first axis of places of what a convolution makes."""
_FEW = 4
"""Samples below which equal sizes are no sign."""


class OddSoftmax(NamedTuple):
    """A softmax over the samples, or over an axis of one element.

    Attributes:
        module: The module whose parameters come next before it; empty if it is not known.
        axis: Its axis.
        shape: The shape of what it makes.
        is_of_best: True for one of what was chosen from others, as the best by ``topk``.
        is_of_places: True for one along a row or a column of the maps that a convolution makes.
    """

    module: str
    axis: int
    shape: tuple[int, ...]
    is_of_best: bool = False
    is_of_places: bool = False

    @property
    def is_of_one(self) -> bool:
        """True for an axis of one element."""
        return self.shape[self.axis] == 1


def odd_softmaxes(uses: Uses) -> Iterator[OddSoftmax]:
    """The softmaxes over the wrong axis.

    Args:
        uses: The functions that made the loss.
    """
    return described(uses, (x for x in uses.nodes if name_of(x) in _SOFTMAXES and _is_odd(uses, x)))


def described(uses: Uses, nodes: Iterable[Any]) -> Iterator[OddSoftmax]:
    """Some softmaxes, each with its axis and the module before it."""
    for node in nodes:
        shape, maker = shape_of(node), maker_of(node)
        is_of_best = maker is not None and name_of(maker) in _CHOOSING
        axis = axis_of(node._saved_dim, len(shape))
        yield OddSoftmax(uses.owner(node), axis, shape, is_of_best, _is_of_places(node))


def _is_of_places(node: Any) -> bool:
    """True for a softmax along one axis of places of what a convolution makes, of several maps."""
    shape, maker = shape_of(node), maker_of(node)
    if maker is None or name_of(maker) != "Convolution" or len(shape) <= _PLACES + 1:
        return False
    return axis_of(node._saved_dim, len(shape)) >= _PLACES and shape[1] > 1


def _is_odd(uses: Uses, node: Any) -> bool:
    shape = shape_of(node)
    if not shape:
        return False
    axis, maker = axis_of(node._saved_dim, len(shape)), maker_of(node)
    if maker is None or name_of(maker) == _LEAF:
        return False
    if shape[axis] == 1:
        return name_of(maker) in (*_LAYERS, *_CHOOSING) and max(shape) > 1
    if _is_of_places(node):
        return True
    if axis != 0 or len(shape) < 2 or shape[0] == shape[1] or shape[0] < _FEW:
        return False
    _, scaled = behind_factors(maker)  # by a temperature
    is_of_layer = scaled is not None and name_of(scaled) == "Addmm"
    if is_of_pairs(maker) or (name_of(node) == "LogSoftmax" and not is_of_layer):
        return False  # similarities of two sets, of which each chooses among the other
    if any(name_of(user) in OF_LOGARITHMS for user, _ in uses.users[id(node)]):
        return False  # that it is over another axis than that of the classes says more
    return lead_to_the_loss(uses, node, (0,))
