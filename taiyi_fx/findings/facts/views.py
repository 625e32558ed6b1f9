"""Views of other sizes that tear the entries of an axis apart, in autograd's graph of a loss."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any

from taiyi_fx.findings.facts.autograd import (
    TURNS,
    VIEWS,
    Uses,
    is_at_hand,
    makers_of,
    name_of,
    nodes_near,
    shape_of,
)

Shape = tuple[int, ...]

_CONVOLUTION = "Convolution"
_READERS = frozenset({"LogSoftmax", _CONVOLUTION})
"""Functions that give each axis a meaning: no heads are handed to them as they are."""
_LAYERS = (_CONVOLUTION, "Addmm", "Mm", "Bmm")
_FAR = 8
"""Functions between a layer and a view of what it returns: norms and activations."""
_SAVED = "_saved_self_sym_sizes"
_TAKEN = {
    **dict.fromkeys(
        (_CONVOLUTION, "NativeBatchNorm", "NativeLayerNorm", "MkldnnRnnLayer", "CudnnRnn"), "input"
    ),
    "Addmm": "mat1",
    "Mm": "self",
}
"""Layers, and the names by which autograd keeps what they are given; of a linear one, as rows."""


def torn_views(uses: Uses) -> Iterator[tuple[Any, Shape, Shape]]:
    """The views that exchange two sizes, where a transpose was meant: node, sizes before and after.

    A view splits axes and joins them, and keeps their order. Where neither is so, the entries of
    one axis are filled up with those of another. Not where entries are cut off before or behind it,
    or sizes differ by one: relative positions are shifted so on purpose. Not of a parameter, which
    may be kept in any order; nor where the last axis may have been split into heads that join the
    samples, ``(..., n, n * k)`` to ``(..., n * k, n)``, unless a softmax chooses among these, or a
    convolution takes them for channels, which may be frames of those that another one returns.

    Args:
        uses: The functions that made the loss.
    """
    for node in uses.nodes:
        given = getattr(node, _SAVED, ()) if name_of(node) in VIEWS else ()
        made = shape_of(node)
        makers = makers_of(node)
        if makers and name_of(makers[0]) == "Clone":  # a reshape of what is no view
            makers = makers_of(makers[0])
        is_own = bool(makers) and not hasattr(makers[0], "variable")
        around = [*makers, *(user for user, _ in uses.users[id(node)])]
        is_shift = any(name_of(one) == "Slice" for one in around)
        if given and made and is_own and not is_shift:
            given = tuple(map(int, given))
            readers = _READERS & {name_of(user) for user, _ in uses.users[id(node)]}
            is_read = bool(readers - {_CONVOLUTION} if _is_of_convolution(makers[0]) else readers)
            is_turned = any(name_of(one) in TURNS for one in makers)
            is_torn = is_read or not _may_be_heads(given, made)
            segments = [*_segments(given, made)]
            if (is_torn and any(_is_exchange(*one) for one in segments)) or (
                not is_turned and any(_is_spliced(*one) for one in segments)
            ):
                yield node, given, made


def torn_inputs(uses: Uses) -> Iterator[tuple[Any, Shape, Shape]]:
    """Layers that are given a view with the sizes of what it is of, in another order.

    As images of ``(n, height, width, channels)`` that were reshaped to ``(n, channels, height,
    width)`` before the model, or in its forward, before anything is computed to them. Yields the
    layer's node, and the sizes before and after; nothing after a backward.

    Args:
        uses: The functions that made the loss.
    """
    for node in uses.nodes:
        name = _TAKEN.get(name_of(node), "")
        view = _taken_by(node, name) if name else None
        base = None if view is None else view._base
        if view is None or base is None or not (view.is_contiguous() and base.is_contiguous()):
            continue  # of a base in another order of its memory, it may be a transpose
        given, made = tuple(map(int, base.shape)), tuple(map(int, view.shape))
        if name == "input" and prod(given) != prod(made):  # of some samples of a data set
            given = (made[0], *given[1:])
        is_torn = _is_of_other_order if name == "input" else _is_of_rows
        if is_torn(given, made):
            yield node, given, made


def _taken_by(node: Any, name: str) -> Any:
    """The tensor itself that a layer was given and saved, which knows what it is a view of."""
    try:
        return getattr(node, f"_saved_{name}") if is_at_hand(node, name) else None
    except RuntimeError:  # released by backward
        return None


def _is_of_rows(given: Shape, made: Shape) -> bool:
    """True for rows that are as long as another axis than the last, and end in the midst of it."""
    *before, last = given or (1,)
    width = made[-1] if made else 1
    return width in before[1:] and bool(last % width) and bool(width % last)


def _is_of_other_order(given: Shape, made: Shape) -> bool:
    """True for a view of the same sizes in another order, between places that both have."""
    segments = _segments(given, made) if prod(given) == prod(made) else ()
    return any(x != y and sorted(x) == sorted(y) for x, y in segments)


def _is_of_convolution(node: Any) -> bool:
    """True if the layer before a function, or itself, is one."""
    layer = next(nodes_near(node, _LAYERS, _FAR), None)
    return layer is not None and name_of(layer) == _CONVOLUTION


def _may_be_heads(given: Shape, made: Shape) -> bool:
    if len(given) <= 2:
        return False
    (n, joined), last = given[-2:], made[-2:]
    return last == (joined, n) != (n, joined) and joined % n == 0


def _is_exchange(given: Shape, made: Shape) -> bool:
    """True if two sizes that differ change places: ``(a, b)`` and ``(b, a)``, or ``(b, a, c)``."""
    if len(given) != 2 or len(made) not in (2, 3):
        return False
    (a, joined), (b, second) = given, made[:2]
    return second == a and joined % b == 0 and abs(a - b) > 1


def _is_spliced(given: Shape, made: Shape) -> bool:
    """True if an axis between two others is cut, one part joined to each, and its size is kept.

    As of ``(layers, samples, width)`` to ``(samples, layers * width)``. Of another size it is a
    number of runs, as where frames are stacked.
    """
    starts = [1, *accumulate(given, mul)]
    ends = [*accumulate(made, mul)][:-1]
    return any(
        size == given[i] and starts[i] < end < starts[i + 1]
        for i in range(1, len(given) - 1)
        for size, end in zip(made, ends, strict=False)
    )


def _segments(given: Shape, made: Shape) -> Iterator[tuple[Shape, Shape]]:
    """The parts of both shapes between the places that both of them have, without axes of one."""
    given, made = (tuple(n for n in shape if n != 1) for shape in (given, made))
    ends = [[*accumulate(shape, mul)] for shape in (given, made)]
    at = (0, 0)
    for end in sorted({*ends[0]} & {*ends[1]}):
        until = ends[0].index(end) + 1, ends[1].index(end) + 1
        yield given[at[0] : until[0]], made[at[1] : until[1]]
        at = until
