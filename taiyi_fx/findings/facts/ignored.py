"""A class that ignore_index leaves out of a loss, at other places than those of padding."""

from __future__ import annotations

from typing import Any, NamedTuple

from taiyi_fx.findings.facts.autograd import (
    Uses,
    axis_of,
    name_of,
    operands_of,
    saved_by,
    shape_of,
)
from taiyi_fx.findings.facts.squashed import OF_LOGARITHMS

_OTHERS = 0.2
"""The share of what is left out that is no padding, from which on it is no chance."""
_FEW = 16


class IgnoredClass(NamedTuple):
    """A class of a sequence's places that is left out where the model is given tokens.

    Attributes:
        number: The number of the class.
        share: The share of the targets that are left out.
        tokens: The share of these at whose places another token stands than the one that most of
            them have, as padding is one.
    """

    number: int
    share: float
    tokens: float


def ignored_class(uses: Uses) -> IgnoredClass | None:
    """The class that the one cross entropy of places leaves out; None of padding, or of no class.

    None of guesses at tokens, whose padding is a class of its own, and after a backward.

    Args:
        uses: The functions that made the loss.
    """
    losses = [node for node in uses.nodes if name_of(node) in OF_LOGARITHMS]
    tables = [node for node in uses.nodes if name_of(node) == "Embedding"]
    if len(losses) != 1 or len(tables) != 1:
        return None
    (loss,), (table,) = losses, tables
    number, classes = loss._saved_ignore_index, _classes_of(loss)
    if not 0 <= number < classes or table._saved_weight_sym_argsize_0 == classes:
        return None
    targets, tokens = saved_by(loss, "target"), saved_by(table, "indices")
    if targets is None or tokens is None:
        return None
    targets, tokens = targets.flatten(), tokens.flatten()
    is_left_out = targets == number
    if tokens.shape != targets.shape or int(is_left_out.sum()) < _FEW:
        return None
    there = tokens[is_left_out]
    others = float((there != there.mode().values).double().mean())
    share = float(is_left_out.double().mean())
    return IgnoredClass(number, share, others) if others >= _OTHERS else None


def _classes_of(loss: Any) -> int:
    given = operands_of(loss)[0]
    shape = shape_of(given) if given is not None else ()
    return shape[axis_of(1, len(shape))] if len(shape) > 1 else 0
