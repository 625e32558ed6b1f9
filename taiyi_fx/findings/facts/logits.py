"""The logits that a loss chooses by, as autograd's notes of it tell."""

from __future__ import annotations

from typing import Any, NamedTuple

from taiyi_fx.findings.facts.autograd import (
    Uses,
    axis_of,
    is_at_hand,
    is_parameter,
    maker_of,
    makers_of,
    name_of,
    nodes_near,
    operands_of,
    shape_of,
)
from taiyi_fx.findings.facts.squashed import OF_LOGARITHMS

_BINARY = "BinaryCrossEntropyWithLogits"
_LAYERS = ("Addmm", "Mm", "Convolution", "Bmm", "UnsafeView")
_PRODUCTS = ("Addmm", "Mm", "Bmm")
_FAR = 30
_SCALES = ("Mul", "Div", "View", "ToCopy", "Squeeze", "Neg", "Mean", "Sum", "Stack")
_OF_ONE = ("Mean", "Stack")
"""Functions that hand a single loss on as it is."""
_PARTS = ("Div", "Neg", "Sum", "Mul")
"""Of a mean over rows of the logarithms of shares, times those that are wanted."""
_ROWS = 2
MEAN = 1
"""As torch numbers the ways to make one number of all cases."""


class Logits(NamedTuple):
    """The logits that the one cross entropy of a loss is given.

    Attributes:
        module: The module whose parameters come next before it; empty if it is not known, as where
            logits are products of what two others return.
        cases: The number of choices in a batch.
        classes: The number of classes of each; 2 of a binary one.
        is_output: True if the module returns them as they are.
        is_mean: True for the mean over all cases.
        is_whole: True if the loss is a multiple of it, with no other term.
    """

    module: str
    cases: int
    classes: int
    is_output: bool
    is_mean: bool
    is_whole: bool


def logits_of(uses: Uses) -> Logits | None:
    """The logits of the one cross entropy in a loss; None of none, and of several.

    Args:
        uses: The functions that made the loss.
    """
    ends = [node for node in uses.nodes if name_of(node) in (*OF_LOGARITHMS, _BINARY)]
    if len(ends) != 1:
        return None
    (end,) = ends
    node = end if name_of(end) == _BINARY else _log_softmax(end)
    if node is None:
        return None
    shape = shape_of(maker) if (maker := maker_of(node)) is not None else ()
    is_binary = node is end
    classes = 2 if is_binary else shape_of(node)[axis_of(node._saved_dim, len(shape_of(node)))]
    size = 1
    for n in shape if is_binary else shape_of(node):
        size *= n
    return Logits(
        "" if _is_of_computed(node) else uses.owner(node),
        size if is_binary else size // max(classes, 1),
        classes,
        maker is not None and name_of(maker) in _LAYERS,
        end._saved_reduction == MEAN and not _is_weighted(end),
        is_whole(uses, end),
    )


def logits_of_shares(uses: Uses) -> Logits | None:
    """The logits of a loss that is a cross entropy of rows with shares of all classes for targets.

    Torch computes it in parts. None of what is a multiple of one: autograd keeps no factor.

    Args:
        uses: The functions that made the loss.
    """
    node = uses.nodes[0] if uses.nodes else None
    while node is not None and name_of(node) in _OF_ONE and len(operands_of(node)) == 1:
        node = operands_of(node)[0]
    for name in _PARTS:
        if node is None or name_of(node) != name:
            return None
        node = operands_of(node)[0]
    if node is None or name_of(node) != "LogSoftmax" or len(shape := shape_of(node)) != _ROWS:
        return None
    if axis_of(node._saved_dim, _ROWS) != 1 or _is_of_computed(node):
        return None
    layer = maker_of(node)
    is_output = layer is not None and name_of(layer) in _LAYERS
    return Logits(uses.owner(node), *shape, is_output, True, True)


def _is_of_computed(node: Any) -> bool:
    """True for logits that are products without a parameter, as the cosines with class centres.

    Their size is not that of what a module returns.
    """
    product = next(nodes_near(node, _PRODUCTS, _FAR), None)
    return product is not None and not any(map(is_parameter, makers_of(product)))


def _is_weighted(end: Any) -> bool:
    if not is_at_hand(end, "weight"):
        return True
    try:
        return end._saved_weight is not None
    except RuntimeError:  # the weights were released by backward: there were some
        return True


def _log_softmax(end: Any) -> Any:
    """The softmax that a loss of logarithms is given as it is; else None."""
    maker = maker_of(end)
    return maker if maker is not None and name_of(maker) == "LogSoftmax" else None


def is_whole(uses: Uses, end: Any) -> bool:
    """True if what comes behind it only multiplies it."""
    node = uses.nodes[0]
    while node is not end:
        makers = [other for other, _ in node.next_functions if other is not None]
        if name_of(node) not in _SCALES or len(makers) != 1:
            return False
        node = makers[0]
    return True
