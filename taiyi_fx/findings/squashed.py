"""Logits that are squashed twice: by the model, and by the loss that they are given to."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

_LOSSES = ("LogSoftmax", "BinaryCrossEntropyWithLogits")
_SQUASHES = {"Softmax": "softmax", "Sigmoid": "sigmoid"}
_OF_LOGARITHMS = ("NllLoss", "NllLoss2D", "NllLossNd")
_RAW = ("Addmm", "Mm", "Convolution", "Relu", "Softmax", "Sigmoid")
"""Functions that return no logarithms of probabilities."""
RAW = "raw"
OTHER_AXIS = "log_softmax over another axis"
_REARRANGES = (
    "View", "Reshape", "UnsafeView", "Transpose", "T", "Permute", "Slice", "Select", "Squeeze",
    "Unsqueeze", "ToCopy", "Clone", "Index", "Expand", "Alias", "SWhere", "Cat",
)  # fmt: skip
_FAR = 8
"""Functions between a loss and what it squashes: means, sums and weights."""


def squashed_by(loss: Any) -> str:
    """The function whose values a loss squashes again, by the notes of autograd; else empty.

    `RAW` of a loss that squashes nothing, and is given what a layer returns; `OTHER_AXIS` of one
    whose logarithms of probabilities are made over another axis than that of the classes.

    Args:
        loss: The loss, a tensor; autograd's nodes have no type, hence `Any`.
    """
    start = getattr(loss, "grad_fn", None)
    for node in _nodes(start, _LOSSES):
        given = _given(node)
        if given in _SQUASHES:
            return _SQUASHES[given]
    if any(_is_over_other_axis(node) for node in _nodes(start, _OF_LOGARITHMS)):
        return OTHER_AXIS
    return RAW if any(_given(node) in _RAW for node in _nodes(start, _OF_LOGARITHMS)) else ""


def classes_of(loss: Any) -> int:
    """The number of classes that a loss chooses between, by the notes of autograd; 0 if unknown.

    Args:
        loss: The loss, a tensor.
    """
    node = next(_nodes(getattr(loss, "grad_fn", None), _LOSSES[:1]), None)
    if node is None:
        return 0
    shape = _shape(node)
    return shape[node._saved_dim] if shape else 0


def _is_over_other_axis(node: Any) -> bool:
    """True for a loss of rows of classes that is given what a softmax over another axis makes."""
    given = _next(node)[:1]
    if not given or _name(given[0]) != _LOSSES[0]:
        return False
    shape = _shape(given[0])
    axis = 1 if len(shape) > 1 else 0
    return bool(shape) and given[0]._saved_dim % len(shape) != axis


def _shape(node: Any) -> tuple[int, ...]:
    """The shape of what a function of autograd made."""
    known = getattr(node, "_input_metadata", ())  # as torch has no other word for it
    return tuple(int(n) for n in known[0].shape) if len(known) == 1 else ()


def _given(node: Any) -> str:
    """The name of the function that made what a loss takes."""
    given = _next(node)[:1]
    while given and _name(given[0]) in _REARRANGES:
        given = _next(given[0])[:1]
    return _name(given[0]) if given else ""


def _nodes(start: Any, names: Collection[str]) -> Iterator[Any]:
    level = [start] if start is not None else []
    for _ in range(_FAR):
        yield from (x for x in level if _name(x) in names)
        level = [y for x in level if _name(x) not in names for y in _next(x)]


def _next(node: Any) -> list[Any]:
    return [other for other, _ in node.next_functions if other is not None]


def _name(node: Any) -> str:
    return node.name().partition("Backward")[0]
