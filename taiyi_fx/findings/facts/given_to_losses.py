"""Odd operands of losses, by autograd's notes: similarities with oneself, what a factor left."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any, NamedTuple

from taiyi_fx.findings.facts.autograd import (
    KEEPS,
    TURNS,
    VIEWS,
    Uses,
    all_before,
    is_scaled,
    maker_of,
    makers_of,
    name_of,
    operands_of,
    saved_by,
    shape_of,
)
from taiyi_fx.findings.facts.squashed import OF_LOGARITHMS

OF_ERRORS = ("MseLoss", "SmoothL1Loss", "HuberLoss")
_OF_LOGITS = ("LogSoftmax", "BinaryCrossEntropyWithLogits")
_WEIGHTS = {"Addmm": 2, "Mm": 1, "Convolution": 1}
"""The place of the weight among what each function of a layer is given."""
_WITH_BIAS = ("Addmm", "Convolution")
_SCALES = KEEPS | {"Mul", "Div"}
_SUMMING = VIEWS | {"Add", "Mean", "Sum", "Mul", "Div", "Stack", "Sqrt"}
"""Functions between a loss and the terms that it is of."""
_FEW = 4
"""Rows below which equal sizes are no sign."""


_RANGES = {
    "Relu": (0.0, inf),
    "Softplus": (0.0, inf),
    "Sigmoid": (0.0, 1.0),
    "Softmax": (0.0, 1.0),
    "Tanh": (-1.0, 1.0),
    "Gelu": (-0.17, inf),
    "Silu": (-0.28, inf),
}
"""The least and the most that each function returns."""
_BEYOND, _MARGIN = 0.05, 0.05
"""The share of targets that lie out of reach on purpose, at most, and how far in deviations."""


class OutOfReach(NamedTuple):
    """Targets of an error that what it compares them with cannot be.

    Attributes:
        module: The module before the function.
        function: The name of the function that bounds what is compared.
        low: The least that the function returns.
        high: The most.
        share: The share of targets that lie beyond.
    """

    module: str
    function: str
    low: float
    high: float
    share: float


def out_of_reach(uses: Uses) -> Iterator[OutOfReach]:
    """The targets of errors that an activation behind the last layer cannot return.

    Nothing after a backward, which frees what autograd has saved.

    Args:
        uses: The functions that made the loss.
    """
    for node in _terms(uses):
        function, targets = _compared(node)
        if targets is None:
            continue
        name = name_of(function)
        low, high = _RANGES[name]
        margin = _MARGIN * targets.std(correction=0)
        share = ((targets < low - margin) | (targets > high + margin)).float().mean().item()
        if share > _BEYOND:
            yield OutOfReach(uses.owner(function), name.lower(), low, high, share)


def _terms(uses: Uses) -> Iterator[Any]:
    """The functions that a loss is the sum or the mean of, with any weights."""
    level, seen = uses.nodes[:1], set[int]()
    while level:
        yield from (node for node in level if name_of(node) not in _SUMMING)
        inner = (other for node in level if name_of(node) in _SUMMING for other in makers_of(node))
        level = [*{id(node): node for node in inner if id(node) not in seen}.values()]
        seen |= {id(node) for node in level}


def _compared(node: Any) -> tuple[Any, Any]:
    """The bounded function whose values an error compares, and its targets; None of others."""
    if name_of(node) in ("Abs", "Pow"):
        return _written_out(node)
    if name_of(node) not in OF_ERRORS or operands_of(node)[1:] != [None]:
        return None, None
    function = maker_of(node)
    is_bounded = function is not None and name_of(function) in _RANGES
    targets = saved_by(node, "target") if is_bounded else None
    return (None, None) if targets is None else (function, targets.float())


def _written_out(node: Any) -> tuple[Any, Any]:
    """The same of the absolute value or the power of a difference, of which targets are a part."""
    difference = operands_of(node)[0]
    if difference is None or name_of(difference) != "Sub":
        return None, None
    operands = operands_of(difference)
    known = [one for one in operands if one is not None]
    while known and name_of(known[0]) in KEEPS:
        known = makers_of(known[0])
    if operands.count(None) != 1 or not known or name_of(known[0]) not in _RANGES:
        return None, None
    function = known[0]
    error, values = saved_by(node, "self"), saved_by(function, "result")  # some keep no result
    if error is None or values is None or values.numel() != error.numel():
        return None, None
    error, values = error.float(), values.float().reshape(error.shape)
    return function, values - error if operands[1] is None else values + error


def own_pairs(uses: Uses) -> Iterator[tuple[Any, tuple[int, ...], tuple[int, ...]]]:
    """The products of some rows with all of the same rows that a cross entropy chooses among.

    Each row's largest is then mostly the one with itself. Not where anything but a factor comes
    between, such as a mask. Yields the product and its shape, which stays.

    Args:
        uses: The functions that made the loss.
    """
    for node in uses.nodes:
        if name_of(node) != "LogSoftmax" or not _is_of_classes(uses, node):
            continue
        product = operands_of(node)[0]
        while product is not None and name_of(product) in _SCALES and _has_one_operand(product):
            product = operands_of(product)[0]
        if product is not None and _is_of_itself(product):
            yield product, shape_of(product), shape_of(product)


def _is_of_classes(uses: Uses, node: Any) -> bool:
    return any(name_of(user) in OF_LOGARITHMS for user, _ in uses.users[id(node)])


def _has_one_operand(node: Any) -> bool:
    return len([one for one in operands_of(node) if one is not None]) == 1


def _is_of_itself(product: Any) -> bool:
    """True for a matrix times its own transpose."""
    shape = shape_of(product)
    if name_of(product) != "Mm" or shape[0] != shape[1] or shape[0] < _FEW:
        return False
    # With the numbers of the outputs: the halves that `chunk` returns have one function.
    rows, (columns, _) = product.next_functions
    return columns is not None and name_of(columns) in TURNS and columns.next_functions[0] == rows


def masked_by_product(uses: Uses) -> Iterator[Any]:
    """The softmaxes of scores that were multiplied by a mask of 0 and 1, which hides nothing.

    Nothing after a backward, which frees what autograd has saved.

    Args:
        uses: The functions that made the loss.
    """
    for node in uses.nodes:
        product = maker_of(node) if name_of(node) in ("Softmax", "LogSoftmax") else None
        if product is None or name_of(product) != "Mul" or operands_of(product).count(None) != 1:
            continue
        mask = "self" if operands_of(product)[0] is None else "other"
        factors = saved_by(product, mask)
        if factors is not None and factors.numel() > 1:
            is_zero = factors == 0
            if bool(is_zero.any()) and bool((is_zero | (factors == 1)).all()):
                yield node


def last_products(uses: Uses) -> Iterator[str]:
    """The layers whose output a loss is given behind a product with what wants no gradient.

    A dropout is one, and a factor: what it multiplies by is not kept. A weight that is used twice
    names no layer, as it may be another's too.

    Args:
        uses: The functions that made the loss.
    """
    for node in uses.nodes:
        if name_of(node) not in (*OF_ERRORS, *_OF_LOGITS):
            continue
        given = maker_of(node)
        if given is None or not (name_of(given) == "NativeDropout" or is_scaled(given)):
            continue
        layer = maker_of(given)
        if layer is None or name_of(layer) not in _WEIGHTS:
            continue
        weight = operands_of(layer)[_WEIGHTS[name_of(layer)]]
        leaf = maker_of(weight) if weight is not None and name_of(weight) in TURNS else weight
        owner = uses.parameters.get(id(getattr(leaf, "variable", None)), "")
        if owner and len(uses.users[id(leaf)]) == 1:
            yield owner


def is_score(uses: Uses) -> bool:
    """True for a plain mean of what a layer returns, as of a critic's scores, which have no scale.

    Args:
        uses: The functions that made the loss.
    """
    names = [name_of(node) for node in uses.nodes]
    ends = [i for i, name in enumerate(names) if name in _WITH_BIAS]
    return bool(ends) and _SUMMING.union(("Neg", "Sub")).issuperset(names[: ends[0]])


def is_judged(uses: Uses) -> bool:
    """True if the last layer before a loss is another model's: a generator's loss by its judge.

    Args:
        uses: The functions that made the loss.
        parameters: The module of each parameter of the model, by the parameter's id.
    """
    # One without a bias may be a product with data.
    layer = next((node for node in uses.nodes if name_of(node) in _WITH_BIAS), None)
    if layer is None:
        return False
    weight = operands_of(layer)[_WEIGHTS[name_of(layer)]]
    made_of = all_before([weight]) if weight is not None else []
    return not any(id(getattr(x, "variable", None)) in uses.parameters for x in made_of)
