"""Logits that are squashed twice: by the model, and by the loss that they are given to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_LOSSES = ("LogSoftmax", "BinaryCrossEntropyWithLogits")
_SQUASHES = {"Softmax": "softmax", "Sigmoid": "sigmoid"}
_REARRANGES = (
    "View", "Reshape", "UnsafeView", "Transpose", "T", "Permute", "Slice", "Select", "Squeeze",
    "Unsqueeze", "ToCopy", "Clone", "Index", "Expand", "Alias", "SWhere", "Cat",
)  # fmt: skip
_FAR = 8
"""Functions between a loss and what it squashes: means, sums and weights."""


def squashed_by(loss: Any) -> str:
    """The function whose values a loss squashes again, by the notes of autograd; else empty.

    Args:
        loss: The loss, a tensor; autograd's nodes have no type, hence `Any`.
    """
    for node in _losses(getattr(loss, "grad_fn", None)):
        given = _next(node)[:1]
        while given and _name(given[0]) in _REARRANGES:
            given = _next(given[0])[:1]
        if given and (name := _SQUASHES.get(_name(given[0]))):
            return name
    return ""


def _losses(node: Any) -> Iterator[Any]:
    level = [node] if node is not None else []
    for _ in range(_FAR):
        yield from (x for x in level if _name(x) in _LOSSES)
        level = [y for x in level if _name(x) not in _LOSSES for y in _next(x)]


def _next(node: Any) -> list[Any]:
    return [other for other, _ in node.next_functions if other is not None]


def _name(node: Any) -> str:
    return node.name().partition("Backward")[0]
