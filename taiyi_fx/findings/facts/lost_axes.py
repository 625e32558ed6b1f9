"""Means and sizes along one axis that meet another axis of what they are of, as autograd notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from taiyi_fx.findings.facts.autograd import (
    Uses,
    axis_of,
    makers_of,
    name_of,
    operands_of,
    shape_of,
)
from taiyi_fx.findings.facts.broadcasts import is_of_pairs
from taiyi_fx.findings.facts.followed_axes import lead_to_the_loss

Shape = tuple[int, ...]

_COMBINING = ("Sub", "Add", "Mul", "Div")
_REDUCING = frozenset("Mean Sum Std Var Amax Amin LinalgVectorNorm Norm Logsumexp".split())
_ELEMENTWISE = frozenset(
    "Add Sub Mul Div Neg Exp Log Sqrt Rsqrt Pow Abs Clamp ClampMin Expand ToCopy Clone".split()
)
_SIZES = ("LinalgVectorNorm", "Norm")
_FAR = 6
_FEW = 4
"""Entries of an axis below which equal sizes are no sign."""


def lost_axes(uses: Uses) -> Iterator[tuple[Any, Shape, Shape]]:
    """Functions of a tensor and of its own mean along an axis, by broadcasting over another axis.

    As ``x - x.mean(1)`` of as many rows as columns, where ``x.mean(1, keepdim=True)`` is meant:
    each row's mean is taken off a column. Yields what made the tensor, its shape, and the mean's.

    Args:
        uses: The functions that made the loss.
    """
    for node in uses.nodes:
        if name_of(node) not in _COMBINING or len(operands_of(node)) != 2:
            continue
        made = shape_of(node)
        for one, other in (operands_of(node), operands_of(node)[::-1]):
            if one is None or other is None or shape_of(one) != made:
                continue
            reduced = _reduced_of(other, one)
            if reduced is None or not _meets_another(reduced, made, shape_of(other)):
                continue
            if not is_of_pairs(one) and lead_to_the_loss(uses, one, (0,)):
                yield one, made, shape_of(other)


def sizes_over_samples(uses: Uses) -> Iterator[tuple[Any, Shape, Shape]]:
    """Quotients of a tensor and its norm along its first axis, of which each entry is a case.

    As ``F.normalize(x, dim=0)``: what is made of a sample depends on the others in its batch.
    Yields the node and its shape, which stays.

    Args:
        uses: The functions that made the loss.
    """
    for node in uses.nodes:
        made = shape_of(node)
        if name_of(node) != "Div" or len(made) < 2 or made[0] < _FEW or None in operands_of(node):
            continue
        one, other = operands_of(node)
        reduced = _reduced_of(other, one)
        is_size = reduced is not None and name_of(reduced) in _SIZES
        if is_size and _dims(reduced, made) == {0} and lead_to_the_loss(uses, node, (0,)):
            yield node, made, made


def _reduced_of(node: Any, source: Any) -> Any:
    """The reduction that a node is made of, element by element, if it is one of the source."""
    level = [node]
    for _ in range(_FAR):
        found = [x for x in level if name_of(x) in _REDUCING]
        if found:
            return found[0] if _is_of(found[0], source) else None
        level = [y for x in level if name_of(x) in _ELEMENTWISE for y in makers_of(x)]
    return None


def _is_of(reduced: Any, source: Any) -> bool:
    """True if what is reduced is the source, element by element, or made of the same."""
    given = makers_of(reduced)[:1]
    if not given or shape_of(given[0]) != shape_of(source):
        return False
    return not _made_of(given[0]).isdisjoint(_made_of(source))


def _made_of(node: Any) -> set[int]:
    """The ids of a node, and of those that it is made of element by element."""
    near, level = set[int](), [node]
    for _ in range(_FAR):
        near |= {id(x) for x in level}
        level = [y for x in level if name_of(x) in _ELEMENTWISE for y in makers_of(x)]
    return near


def _meets_another(reduced: Any, made: Shape, given: Shape) -> bool:
    """True if an axis that is left stands for another one than it was, of several entries."""
    if getattr(reduced, "_saved_keepdim", True) or len(given) >= len(made):
        return False
    dims = _dims(reduced, made)
    left = [axis for axis in range(len(made)) if axis not in dims]
    now = range(len(made) - len(given), len(made))
    if not dims or len(left) != len(given):
        return False
    return any(a != b and made[a] >= _FEW for a, b in zip(left, now, strict=True))


def _dims(reduced: Any, shape: Shape) -> set[int]:
    saved = getattr(reduced, "_saved_dim", None)
    dims = saved if isinstance(saved, tuple) else () if saved is None else (saved,)
    return {axis_of(dim, len(shape)) for dim in dims}
