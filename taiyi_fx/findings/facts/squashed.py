"""Logits that are squashed twice: by the model, and by the loss that they are given to."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from taiyi_fx.findings.facts.autograd import (
    KEEPS,
    REARRANGES,
    TURNS,
    axis_of,
    factor_of,
    is_parameter,
    is_scaled,
    maker_of,
    makers_of,
    multiple_of,
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
How = Literal["squashed", "shares", "cosines", "twice", "divergence", "rates", "axis", "raw"]
_OF_RATES = {"Softplus": "softplus", "Relu": "relu", "Exp": "exp", "Sigmoid": "sigmoid"}
"""Functions that make rates of any numbers."""
_CLOSED = ("Sigmoid", "Softmax")
"""Functions that nobody means to apply to what they return."""
_PRODUCTS = ("Mm", "Bmm")
_TURNS = KEEPS | TURNS
_OF_ROWS = ("Split", "SplitWithSizes", "Cat", "Slice")
_OF_SOME = ("Index", "IndexSelect", "Slice")
_NORMS = ("LinalgVectorNorm", "Norm")
_MASKED = ("MaskedFill", "Where")
_TRAINED = 0.5
"""The factor of cosines below which one that is trained begins too small: some begin at 1."""
_NEAR = 4
"""Functions between a norm and the quotient by it: a bound from below, an axis that is kept."""
_SUMS = ("Sum", "Mean", "Div", "Mul", "Stack")
_FAR = 8
"""Functions between a loss and what it squashes: means, sums and weights."""


class Squashed(NamedTuple):
    """The thing that a loss is given in the place of logits, or of logarithms.

    Attributes:
        how: ``"squashed"`` of a loss that squashes what a function has squashed already;
            ``"shares"`` of logits that a layer with a bias makes of what a softmax returns;
            ``"cosines"`` of logits that are products of unit vectors, with no factor, or with one
            of 1 at most, which is known until backward; ``"twice"`` where a function is given its
            own values, whatever the loss is; ``"raw"`` of a loss that squashes nothing, and is
            given what a layer returns; ``"axis"`` of one whose logarithms of probabilities are
            made over another axis than that of the classes; ``"divergence"`` of a ``kl_div`` of
            what is no logarithm; ``"rates"`` of a ``poisson_nll_loss`` that takes rates for their
            logarithms.
        function: The function that squashed it.
        factor: That of cosines.
    """

    how: How
    function: str = ""
    factor: float = 1.0


def squashed_by(loss: Any) -> Squashed | None:
    """The thing that a loss is given in the place of logits, by autograd's notes; else None.

    Args:
        loss: The loss, a tensor; autograd's nodes have no type, hence `Any`.
    """
    start = getattr(loss, "grad_fn", None)
    for node in nodes_near(start, _LOSSES, _FAR):
        if (found := _of_logits(node)) is not None:
            return found
    if any(_is_normalised_twice(node) for node in nodes_near(start, (_NORMALISER,), _FAR)):
        return Squashed("squashed", _SQUASHES["Softmax"])
    for node in nodes_near(start, _CLOSED, _FAR):
        if _given(node) == name_of(node):
            return Squashed("twice", _SQUASHES[name_of(node)])
    if _is_of_divergence(start):
        return Squashed("divergence")
    if rates := _rates_of(_beneath_sums(start)):
        return Squashed("rates", rates)
    takers = [*nodes_near(start, _TAKERS, _FAR)]
    if any(map(_is_over_other_axis, takers)):
        return Squashed("axis")
    return Squashed("raw") if any(_given(node) in _RAW for node in takers) else None


def _of_logits(node: Any) -> Squashed | None:
    """The oddity in the logits of a cross entropy; None if there is none."""
    given = _given(node)
    if given in _SQUASHES:
        return Squashed("squashed", _SQUASHES[given])
    if name_of(node) != _LOSSES[0]:
        return None
    factor = _factor_of_cosines(maker_of(node))
    if factor is not None:
        return Squashed("cosines", factor=factor)
    is_of_shares = given == "Addmm" and _is_given_shares(maker_of(node))
    return Squashed("shares") if is_of_shares else None


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
    while given is not None and name_of(given) in (*TURNS, *_OF_SOME):
        if len(shape_of(given)) != ndim:
            return False
        axis = _axis_before(given, axis, ndim)
        given = operands_of(given)[0]
    if given is None or name_of(given) != _LOSSES[0]:
        return False
    return axis_of(given._saved_dim, ndim) != axis


def _axis_before(turn: Any, axis: int, ndim: int) -> int:
    """The axis that one of what a transposition makes was before, or of what takes some rows."""
    if name_of(turn) in _OF_SOME:
        return axis
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


def _factor_of_cosines(node: Any) -> float | None:
    """The factor, 1 at most, of products of unit vectors, also masked ones; else None.

    One that is trained begins far below 1 where it is the wrong way round.
    """
    product, most = 1.0, 1.0
    while node is not None and (name_of(node) in (*_MASKED, *REARRANGES) or multiple_of(node)):
        factor, given = multiple_of(node) or (1.0, next(iter(makers_of(node)), None))
        is_trained = name_of(node) in ("Mul", "Div") and None not in operands_of(node)
        product, most = product * abs(factor), _TRAINED if is_trained else most
        node = given
    if node is None or name_of(node) not in _PRODUCTS:
        return None
    for size in map(size_of_unit, operands_of(node)):
        if size is None:
            return None
        product *= size
    return product if product <= most else None


def size_of_unit(node: Any) -> float | None:
    """The size, 1 at most, of what is divided by its own norm, and rearranged since; else None."""
    size = 1.0
    while node is not None and (
        name_of(node) in _TURNS or _is_times_one(node) or _is_of_rows(node)
    ):
        size *= float(node._saved_other) if _is_times_one(node) else 1.0
        node = next(iter(makers_of(node)), None)
    if node is None or name_of(node) != "Div" or None in operands_of(node):
        return None
    return size if any(True for _ in nodes_near(operands_of(node)[1], _NORMS, _NEAR)) else None


def _rates_of(node: Any) -> str:
    """The function whose values a ``poisson_nll_loss`` takes for logarithms of rates; else empty.

    It is the exponential of what it is given less a multiple of that.
    """
    sides = operands_of(node) if node is not None and name_of(node) == "Sub" else []
    if len(sides) != 2 or None in sides or [name_of(x) for x in sides] != ["Exp", "Mul"]:
        return ""
    given, factors = operands_of(sides[0])[0], makers_of(sides[1])
    maker = given if name_of(given) not in KEEPS else maker_of(given)
    return _OF_RATES.get(name_of(maker), "") if factors == [given] and maker is not None else ""


def _is_of_rows(node: Any) -> bool:
    """True for what parts or joins rows, as the halves of a batch, and leaves each as it is."""
    return name_of(node) in _OF_ROWS and node._saved_dim == 0


def _is_times_one(node: Any) -> bool:
    """True for a product with a number of 1 at most, which backward frees."""
    factor = factor_of(node) if is_scaled(node) else None
    return factor is not None and abs(factor) <= 1


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
