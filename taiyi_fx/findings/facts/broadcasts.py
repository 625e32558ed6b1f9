"""Operands whose samples meet all samples of the other one, by a missing axis.

Where samples lie on an axis, it leads to the mean of the loss; see `followed_axes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from taiyi_fx.findings.facts.autograd import (
    TURNS,
    VIEWS,
    Uses,
    is_parameter,
    makers_of,
    name_of,
    operands_of,
    shape_of,
)
from taiyi_fx.findings.facts.followed_axes import lead_to_the_loss
from taiyi_fx.findings.facts.mistaken_axes import MistakenAxes

_COMBINING = ("Sub", "Mul", "Add", "Div")
_LOSSES = ("MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss")
"""Functions of torch that expand what they are given before they compare it."""
_INSERTING = VIEWS.union(
    TURNS, "Unsqueeze Expand Index Slice Sum Mean Amax Max LinalgVectorNorm".split()
)
"""Functions that make an axis of one on purpose."""
_FEW = 4
"""Samples below which equal sizes are no sign."""
_FAR = 30


def broadcasts(uses: Uses) -> Iterator[MistakenAxes]:
    """The operands whose samples meet all of the other operand's, with the shape of the result.

    None where other pairs of samples are made on purpose, as by a distance between two sets.

    Args:
        uses: The functions that made the loss.
    """
    found: list[MistakenAxes] = []
    for node in uses.nodes:
        name, made = name_of(node), shape_of(node)
        if len(made) < 2 or made[0] != made[1] or made[0] < _FEW or not _combines(uses, node):
            continue
        operands = [x for x in makers_of(node) if shape_of(x) != made]
        if len(operands) < len(makers_of(node)) or not operands:
            continue
        if not all(_is_by_chance(x, made) for x in operands):
            return
        is_one = len({shape_of(x) for x in operands}) == len(operands)
        # A sum of weighted pairs may be that of a graph's edges.
        or_sum = name in ("Sub", "Expand")
        if is_one and lead_to_the_loss(uses, node, (0, 1), or_sum=or_sum):
            found.append(MistakenAxes(uses.owner(operands[0]), shape_of(operands[0]), made))
    yield from found


def _combines(uses: Uses, node: Any) -> bool:
    if name_of(node) == "Expand":
        return any(name_of(user) in _LOSSES for user, _ in uses.users[id(node)])
    return name_of(node) in _COMBINING and len(operands_of(node)) == 2


def _is_by_chance(operand: Any, made: tuple[int, ...]) -> bool:
    """True for an operand that has one axis less, or an axis of one that nobody has put there."""
    n, _, *rest = made
    shape = shape_of(operand)
    return shape == (n, *rest) or (shape == (n, 1, *rest) and name_of(operand) not in _INSERTING)


def is_of_pairs(maker: Any) -> bool:
    """True for a product of two computed matrices, or what is made of one element by element."""
    for _ in range(_FAR):
        name, makers = name_of(maker), makers_of(maker)
        if name in ("Mm", "Addmm", "Bmm", "Cdist", "Euclidean"):
            is_batch = name == "Bmm" and shape_of(maker)[:1] != (1,)
            return not is_batch and not any(is_parameter(x) for x in makers)
        if not makers:
            return False
        maker = makers[0]
    return False
