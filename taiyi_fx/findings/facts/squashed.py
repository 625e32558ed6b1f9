"""Logits that are squashed twice: by the model, and by the loss that they are given to."""

from __future__ import annotations

from typing import Any

from taiyi_fx.findings.facts.autograd import (
    axis_of,
    is_scaled,
    maker_of,
    makers_of,
    name_of,
    nodes_near,
    operands_of,
    shape_of,
)

_LOSSES = ("LogSoftmax", "BinaryCrossEntropyWithLogits")
_SQUASHES = {"Softmax": "softmax", "Sigmoid": "sigmoid", "Relu": "relu", "Tanh": "tanh"}
OF_LOGARITHMS = ("NllLoss", "NllLoss2D", "NllLossNd")
"""Losses of logarithms of probabilities."""
_RAW = ("Addmm", "Mm", "Convolution", "Relu", "Softmax", "Sigmoid")
"""Functions that return no logarithms of probabilities."""
RAW = "raw"
OTHER_AXIS = "log_softmax over another axis"
DIVERGENCE = "divergence"
COSINES = "cosines"
SHARES = "shares"
_PRODUCTS = ("Mm", "Bmm")
_TURNS = ("T", "Transpose", "View", "Expand", "Permute")
_NORMS = ("LinalgVectorNorm", "Norm")
_NEAR = 4
"""Functions between a norm and the quotient by it: a bound from below, an axis that is kept."""
_SUMS = ("Sum", "Mean", "Div", "Mul", "Stack")
_FAR = 8
"""Functions between a loss and what it squashes: means, sums and weights."""


def squashed_by(loss: Any) -> str:
    """The function whose values a loss squashes again, by the notes of autograd; else empty.

    `SHARES` of logits that a layer with a bias makes of what a softmax returns; `COSINES` of logits
    that are products of unit vectors, with no factor, or with one of 1 at most, which is known
    until backward; `RAW` of a loss that squashes nothing, and is given what a layer returns;
    `OTHER_AXIS` of one whose logarithms of probabilities are made over another axis than that of
    the classes; `DIVERGENCE` of a ``kl_div`` of what is no logarithm.

    Args:
        loss: The loss, a tensor; autograd's nodes have no type, hence `Any`.
    """
    start = getattr(loss, "grad_fn", None)
    for node in nodes_near(start, _LOSSES, _FAR):
        given = _given(node)
        if given in _SQUASHES:
            return _SQUASHES[given]
        is_choice = name_of(node) == _LOSSES[0] and given in _PRODUCTS
        if is_choice and all(map(_is_of_unit_size, operands_of(maker_of(node)))):
            return COSINES
        if name_of(node) == _LOSSES[0] and given == "Addmm" and _is_given_shares(maker_of(node)):
            return SHARES
    if _is_of_divergence(start):
        return DIVERGENCE
    if any(_is_over_other_axis(node) for node in nodes_near(start, OF_LOGARITHMS, _FAR)):
        return OTHER_AXIS
    return (
        RAW if any(_given(node) in _RAW for node in nodes_near(start, OF_LOGARITHMS, _FAR)) else ""
    )


def classes_of(loss: Any) -> int:
    """The number of classes that a loss chooses between, by the notes of autograd; 0 if unknown.

    That of several tasks, each with classes of its own, is not known: no one guess costs it.

    Args:
        loss: The loss, a tensor.
    """
    counts = set[int]()
    for node in nodes_near(getattr(loss, "grad_fn", None), _LOSSES[:1], _FAR):
        shape = shape_of(node)
        counts.add(shape[axis_of(node._saved_dim, len(shape))] if shape else 0)
    return counts.pop() if len(counts) == 1 else 0


def _is_over_other_axis(node: Any) -> bool:
    """True for a loss of rows of classes that is given what a softmax over another axis makes."""
    given = makers_of(node)[:1]
    if not given or name_of(given[0]) != _LOSSES[0]:
        return False
    shape = shape_of(given[0])
    axis = 1 if len(shape) > 1 else 0
    return bool(shape) and axis_of(given[0]._saved_dim, len(shape)) != axis


def _is_given_shares(layer: Any) -> bool:
    """True for a layer of rows that is given what a softmax over the features returns."""
    bias, given, weight = operands_of(layer)
    if None in (bias, given, weight) or name_of(given) != "Softmax":
        return False
    shape = shape_of(given)
    return len(shape) > 1 and axis_of(given._saved_dim, len(shape)) == len(shape) - 1


def _is_of_unit_size(node: Any) -> bool:
    """True for what is divided by its own norm, behind what rearranges it or makes it no larger."""
    while node is not None and (name_of(node) in _TURNS or _is_times_one(node)):
        node = next(iter(makers_of(node)), None)
    if node is None or name_of(node) != "Div" or None in operands_of(node):
        return False
    return any(True for _ in nodes_near(operands_of(node)[1], _NORMS, _NEAR))


def _is_times_one(node: Any) -> bool:
    """True for a product with a number of 1 at most, which backward frees."""
    if not is_scaled(node):
        return False
    try:
        factor = node._saved_other
    except RuntimeError:
        return False
    is_number = factor.numel() == 1 and factor.device.type == "cpu"
    return is_number and abs(float(factor)) <= 1


def _is_of_divergence(node: Any) -> bool:
    """True for a sum of constants less multiples of what is no logarithm, as ``kl_div`` is made.

    Other terms may be added to it.
    """
    while node is not None and name_of(node) in _SUMS:
        if name_of(node) in ("Mul", "Div") and None not in operands_of(node):
            return False  # as the square of an error, which is no weight
        node = next(iter(makers_of(node)), None)
    if node is not None and name_of(node) == "Add" and not shape_of(node):
        return any(map(_is_of_divergence, makers_of(node)))
    if node is None or name_of(node) != "Sub" or len(shape_of(node)) < 2:
        return False
    constant, product = operands_of(node)
    if constant is not None or name_of(product) != "Mul":
        return False
    return operands_of(product).count(None) == 1 and _given(product) in _RAW


def _given(node: Any) -> str:
    """The name of the function that made what a loss takes."""
    maker = maker_of(node)
    return "" if maker is None else name_of(maker)
