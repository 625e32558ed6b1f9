"""Axes of tensors, followed from the function that made them to the loss, by autograd's notes.

An axis that leads to the mean of a loss without being summed over before is one whose entries are
cases of their own, as the samples of a batch are. Where a function's rule is not known, nothing is
said of the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isclose
from typing import Any

from taiyi_fx.findings.facts.autograd import (
    VIEWS,
    Uses,
    axis_of,
    multiple_of,
    name_of,
    operands_of,
    shape_of,
)

_MEANS = frozenset(
    "Mean MseLoss L1Loss SmoothL1Loss HuberLoss NllLoss NllLoss2D NllLossNd BinaryCrossEntropy "
    "BinaryCrossEntropyWithLogits KlDiv SoftMarginLoss".split()
)
"""Functions that make one number of all cases; a sum may be the weighted one of a few."""
SUMS = frozenset({"Sum"})
_FAR = 4
"""Factors behind a sum of which one may be the number of cases."""

Rule = Callable[[Any, int, "tuple[int, ...]", int], "int | None"]
"""Takes a function, the place of the operand, its shape and an axis to that of what it makes."""


def lead_to_the_loss(uses: Uses, node: Any, axes: tuple[int, ...], *, or_sum: bool = False) -> bool:
    """True if some axes of what a function made stay apart until the mean of a loss.

    Args:
        uses: The functions that made the loss.
        node: The function.
        axes: The axes.
        or_sum: Whether a sum of all will do in place of the mean.
    """
    ends = _MEANS | SUMS if or_sum else _MEANS
    waiting, seen = [(node, axes)], set[tuple[int, tuple[int, ...]]]()
    while waiting:
        at, axes = waiting.pop()
        shape = shape_of(at)
        if (id(at), axes) in seen or not shape:
            continue
        seen.add((id(at), axes))
        for user, place in uses.users[id(at)]:
            if not shape_of(user) and (
                name_of(user) in ends or _is_mean(uses, user, shape[axes[0]])
            ):
                return True
            led = [_led(user, place, shape, axis) for axis in axes]
            known = tuple(axis for axis in led if axis is not None)
            if len(known) == len(axes):
                waiting.append((user, known))
    return False


def _is_mean(uses: Uses, node: Any, n: int) -> bool:
    """True for a sum of all that is divided by their number, as ``"batchmean"`` does."""
    if name_of(node) not in SUMS:
        return False
    for _ in range(_FAR):
        users = [user for user, _ in uses.users[id(node)]]
        known = multiple_of(users[0]) if len(users) == 1 else None
        if known is None:
            return False
        if isclose(known[0] * n, 1):
            return True
        node = users[0]
    return False


def _led(user: Any, place: int, shape: tuple[int, ...], axis: int) -> int | None:
    """The axis of what a function makes that an axis of its operand becomes; None if none does."""
    return _RULES.get(name_of(user), _elementwise)(user, place, shape, axis)


def _elementwise(user: Any, place: int, shape: tuple[int, ...], axis: int) -> int | None:
    """Of functions that keep the shape, or broadcast: axes are counted from the last."""
    made = shape_of(user)
    led = axis - len(shape) + len(made)
    pairs = zip(reversed(shape), reversed(made), strict=False)
    is_kept = len(made) >= len(shape) and all(a in (b, 1) for a, b in pairs)
    return led if is_kept and made[led] == shape[axis] else None


def _reduced(user: Any, place: int, shape: tuple[int, ...], axis: int) -> int | None:
    saved = getattr(user, "_saved_dim", None)
    if saved is None:
        return None
    dims = saved if isinstance(saved, tuple) else (saved,)
    over = {axis_of(dim, len(shape)) for dim in dims}
    if axis in over or not over:
        return None
    keeps = getattr(user, "_saved_keepdim", False)
    return axis if keeps else axis - sum(dim < axis for dim in over)


def _product(user: Any, place: int, shape: tuple[int, ...], axis: int) -> int | None:
    """Of a product of matrices: rows of the first and columns of the second stay apart."""
    place -= len(operands_of(user)) - 2  # an addend comes first
    if place < 0:
        return _elementwise(user, place, shape, axis)
    summed_over = len(shape) - (1 if place == 0 else 2)
    return None if axis == summed_over else axis


def _transposed(user: Any, place: int, shape: tuple[int, ...], axis: int) -> int | None:
    ndim = len(shape)
    a, b = (
        (0, ndim - 1)
        if name_of(user) == "T"
        else (axis_of(user._saved_dim0, ndim), axis_of(user._saved_dim1, ndim))
    )
    return {a: b, b: a}.get(axis, axis)


def _permuted(user: Any, place: int, shape: tuple[int, ...], axis: int) -> int | None:
    return [axis_of(dim, len(shape)) for dim in user._saved_dims].index(axis)


def _reshaped(user: Any, place: int, shape: tuple[int, ...], axis: int) -> int | None:
    """Of a view: the first axis stays in front, however it is split or merged; another its size."""
    if axis == 0:
        return 0
    made, before, total = shape_of(user), 1, 1
    for size in shape[:axis]:
        total *= size
    for led, size in enumerate(made):
        if before == total and size == shape[axis]:
            return led
        before *= size
    return None


def _selected(user: Any, place: int, shape: tuple[int, ...], axis: int) -> int | None:
    dim = axis_of(user._saved_dim, len(shape))
    return None if axis == dim else axis - (dim < axis)


def _stacked(user: Any, place: int, shape: tuple[int, ...], axis: int) -> int | None:
    return axis + (axis_of(user._saved_dim, len(shape) + 1) <= axis)


def _same(user: Any, place: int, shape: tuple[int, ...], axis: int) -> int | None:
    """Of functions that choose, sort or join entries: cases stay cases."""
    return axis if axis < len(shape_of(user)) else None


def _first(user: Any, place: int, shape: tuple[int, ...], axis: int) -> int | None:
    """Of functions that keep the samples, and mix or choose among the rest."""
    return 0 if axis == 0 and place == 0 else None


def _none(user: Any, place: int, shape: tuple[int, ...], axis: int) -> int | None:
    return None


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(
        "Sum Mean Logsumexp Amax Amin Max Min Prod Std Var LinalgVectorNorm Norm".split(), _reduced
    ),
    **dict.fromkeys("Mm Bmm Addmm Baddbmm".split(), _product),
    **dict.fromkeys("Transpose T".split(), _transposed),
    **dict.fromkeys((*VIEWS, "Squeeze"), _reshaped),
    **dict.fromkeys("Topk Sort Gather IndexSelect IndexAdd IndexCopy Cat Slice".split(), _same),
    **dict.fromkeys("Index Convolution".split(), _first),
    **dict.fromkeys("Cumsum Cumprod Dot Mv MaskedSelect".split(), _none),
    "Permute": _permuted,
    "Select": _selected,
    "Stack": _stacked,
    "Unsqueeze": _stacked,
}
