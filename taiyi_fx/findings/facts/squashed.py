"""Logits that are squashed twice: by the model, and by the loss that they are given to."""

from __future__ import annotations

from typing import Any

from taiyi_fx.findings.facts.autograd import (
    KEEPS,
    TURNS,
    axis_of,
    is_at_hand,
    is_parameter,
    is_scaled,
    maker_of,
    makers_of,
    name_of,
    nodes_near,
    operands_of,
    shape_of,
)

_LOSSES = ("LogSoftmax", "BinaryCrossEntropyWithLogits")
_NORMALISER = "Logsumexp"
"""What Categorical subtracts from logits, as log_softmax does."""
_NAMES = {
    _NORMALISER: "Categorical(logits=...)",
    "LogSoftmax": "cross_entropy",
    "BinaryCrossEntropyWithLogits": "binary_cross_entropy_with_logits",
}
_SQUASHES = {"Softmax": "softmax", "Sigmoid": "sigmoid", "Relu": "relu", "Tanh": "tanh"}
OF_LOGARITHMS = ("NllLoss", "NllLoss2D", "NllLossNd")
"""Losses of logarithms of probabilities."""
_OF_ALIGNMENTS = ("CtcLoss", "CudnnCtcLoss")
"""Those whose classes are on the last axis."""
_TAKERS = OF_LOGARITHMS + _OF_ALIGNMENTS
_BINARY = ("BinaryCrossEntropyWithLogits", "BinaryCrossEntropy", "LogSigmoid")
_RAW = ("Addmm", "Mm", "Convolution", "Relu", "Softmax", "Sigmoid")
"""Functions that return no logarithms of probabilities."""
RAW = "raw"
OTHER_AXIS = "log_softmax over another axis"
DIVERGENCE = "divergence"
COSINES = "cosines"
SHARES = "shares"
TWICE = "twice "
_CLOSED = ("Sigmoid", "Softmax")
"""Functions that nobody means to apply to what they return."""
_PRODUCTS = ("Mm", "Bmm")
_TURNS = KEEPS | TURNS
_OF_ROWS = ("Split", "SplitWithSizes", "Cat", "Slice")
_NORMS = ("LinalgVectorNorm", "Norm")
_MASKED = ("MaskedFill", "Where")
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
    the classes; `DIVERGENCE` of a ``kl_div`` of what is no logarithm; `TWICE` and the function
    where its own values are squashed by it again, whatever the loss is.

    Args:
        loss: The loss, a tensor; autograd's nodes have no type, hence `Any`.
    """
    start = getattr(loss, "grad_fn", None)
    for node in nodes_near(start, _LOSSES, _FAR):
        given = _given(node)
        if given in _SQUASHES:
            return _SQUASHES[given]
        if name_of(node) == _LOSSES[0] and _is_of_cosines(maker_of(node)):
            return COSINES
        if name_of(node) == _LOSSES[0] and given == "Addmm" and _is_given_shares(maker_of(node)):
            return SHARES
    if any(_is_normalised_twice(node) for node in nodes_near(start, (_NORMALISER,), _FAR)):
        return _SQUASHES["Softmax"]
    for node in nodes_near(start, _CLOSED, _FAR):
        if _given(node) == name_of(node):
            return TWICE + _SQUASHES[name_of(node)]
    if _is_of_divergence(start):
        return DIVERGENCE
    if any(_is_over_other_axis(node) for node in nodes_near(start, _TAKERS, _FAR)):
        return OTHER_AXIS
    return RAW if any(_given(node) in _RAW for node in nodes_near(start, _TAKERS, _FAR)) else ""


def squashing_loss(loss: Any) -> str:
    """The name of the loss function that squashes what was squashed already; else empty.

    Args:
        loss: The loss, a tensor.
    """
    nodes = nodes_near(getattr(loss, "grad_fn", None), (*_LOSSES, _NORMALISER), _FAR)
    return next((_NAMES[name_of(node)] for node in nodes if _given(node) in _SQUASHES), "")


def classes_of(loss: Any) -> int:
    """The number of classes that a loss chooses between, by the notes of autograd; 0 if unknown.

    2 of yes or no, and of which of two is preferred. That of several tasks, each with classes of
    its own, is not known: no one guess costs it.

    Args:
        loss: The loss, a tensor.
    """
    counts = set[int]()
    for node in nodes_near(getattr(loss, "grad_fn", None), (*_LOSSES[:1], *_BINARY), _FAR):
        shape = shape_of(node)
        if name_of(node) in _BINARY:
            counts.add(2)
        else:
            counts.add(shape[axis_of(node._saved_dim, len(shape))] if shape else 0)
    return counts.pop() if len(counts) == 1 else 0


def _is_over_other_axis(node: Any) -> bool:
    """True for a loss of rows of classes that is given what a softmax over another axis makes."""
    given = operands_of(node)[0]
    if given is None or not (ndim := len(shape_of(given))):
        return False
    axis = ndim - 1 if name_of(node) in _OF_ALIGNMENTS else min(1, ndim - 1)
    while given is not None and name_of(given) in TURNS:
        axis = _axis_before(given, axis, ndim)
        given = operands_of(given)[0]
    if given is None or name_of(given) != _LOSSES[0]:
        return False
    return axis_of(given._saved_dim, ndim) != axis


def _axis_before(turn: Any, axis: int, ndim: int) -> int:
    """The axis that one of what a transposition makes was before."""
    if name_of(turn) == "Permute":
        return axis_of(turn._saved_dims[axis], ndim)
    a, b = (0, ndim - 1)
    if name_of(turn) == "Transpose":
        a, b = (axis_of(saved, ndim) for saved in (turn._saved_dim0, turn._saved_dim1))
    return {a: b, b: a}.get(axis, axis)


def _is_given_shares(layer: Any) -> bool:
    """True for a layer of rows that is given what a softmax over the features returns."""
    bias, given, weight = operands_of(layer)
    if None in (bias, given, weight) or name_of(given) != "Softmax":
        return False
    shape = shape_of(given)
    return len(shape) > 1 and axis_of(given._saved_dim, len(shape)) == len(shape) - 1


def _is_normalised_twice(node: Any) -> bool:
    """True for the normaliser of what a softmax returns, over the same axis, for its logarithm."""
    given = maker_of(node)
    if given is None or name_of(given) != "Softmax" or not (ndim := len(shape_of(given))):
        return False
    axes = node._saved_dim if isinstance(node._saved_dim, (tuple, list)) else (node._saved_dim,)
    return [axis_of(axis, ndim) for axis in axes] == [axis_of(given._saved_dim, ndim)]


def _is_of_cosines(node: Any) -> bool:
    """True for products of unit vectors, with no factor above 1, of which some may be masked."""
    while node is not None and (name_of(node) in _MASKED or _is_times_one(node)):
        node = maker_of(node)
    if node is None or name_of(node) not in _PRODUCTS:
        return False
    return all(map(_is_of_unit_size, operands_of(node)))


def _is_of_unit_size(node: Any) -> bool:
    """True for what is divided by its own norm, behind what rearranges it or makes it no larger."""
    while node is not None and (
        name_of(node) in _TURNS or _is_times_one(node) or _is_of_rows(node)
    ):
        node = next(iter(makers_of(node)), None)
    if node is None or name_of(node) != "Div" or None in operands_of(node):
        return False
    return any(True for _ in nodes_near(operands_of(node)[1], _NORMS, _NEAR))


def _is_of_rows(node: Any) -> bool:
    """True for what parts or joins rows, as the halves of a batch, and leaves each as it is."""
    return name_of(node) in _OF_ROWS and node._saved_dim == 0


def _is_times_one(node: Any) -> bool:
    """True for a product with a number of 1 at most, which backward frees."""
    if not is_scaled(node) or not is_at_hand(node, "other"):
        return False
    try:
        factor = node._saved_other
    except RuntimeError:
        return False
    is_number = factor.numel() == 1 and factor.device.type == "cpu"
    return is_number and abs(float(factor)) <= 1


def is_divergence(loss: Any) -> bool:
    """True for a ``kl_div`` of what `log_softmax` returns, or a multiple of it, with no other term.

    Args:
        loss: The loss, a tensor.
    """
    return _given_to_divergence(_beneath_sums(getattr(loss, "grad_fn", None))) == _LOSSES[0]


def _is_of_divergence(node: Any) -> bool:
    """True for a ``kl_div`` of what is no logarithm, also with other terms."""
    node = _beneath_sums(node)
    if node is not None and name_of(node) == "Add" and not shape_of(node):
        return any(map(_is_of_divergence, makers_of(node)))
    return _given_to_divergence(node) in _RAW


def _beneath_sums(node: Any) -> Any:
    """The function whose results are added up, or multiplied by constants; None if unknown."""
    while node is not None and name_of(node) in _SUMS:
        if name_of(node) in ("Mul", "Div") and None not in operands_of(node):
            return None  # as the square of an error, which is no weight
        node = next(iter(makers_of(node)), None)
    return node


def _given_to_divergence(node: Any) -> str:
    """The name of the function that made what a ``kl_div`` takes; empty of what is none.

    It is made of constants less multiples of what it is given.
    """
    if node is None or name_of(node) != "Sub" or len(shape_of(node)) < 2:
        return ""
    constant, product = operands_of(node)
    if constant is not None or name_of(product) != "Mul":
        return ""
    return _given(product) if operands_of(product).count(None) == 1 else ""


def _given(node: Any) -> str:
    """The name of the function that made what a loss takes; of a layer's bias, the product."""
    maker = maker_of(node)
    if maker is not None and name_of(maker) == "Add" and is_parameter(operands_of(maker)[1]):
        maker = maker_of(maker)
    return "" if maker is None else name_of(maker)
