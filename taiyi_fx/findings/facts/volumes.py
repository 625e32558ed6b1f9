"""The sign of a logarithm in a loss, whose exponential multiplies what the loss is computed of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from taiyi_fx.findings.facts.autograd import (
    Uses,
    factor_of,
    name_of,
    operands_of,
)

_KEEPS = frozenset(
    "Sum Mean View UnsafeView ReshapeAlias Squeeze Unsqueeze Expand Clone Alias ToCopy Stack Cat "
    "EagerTap".split()
)
"""Functions that hand a number on, or add it up."""
_OF_CHOICES = (
    *("LogSoftmax", "NllLoss", "NllLoss2D", "Logsumexp"),
    *("BinaryCrossEntropyWithLogits", "BinaryCrossEntropy", "LogSigmoid"),
)
"""Losses in which a scale says how sure a choice is, which may be held small on purpose."""
_ABOVE_ZERO = ("Pow", "MseLoss", "SmoothL1Loss", "HuberLoss", "NllLoss", "NllLoss2D", "Abs")

Place = tuple[int, int]
"""A number: the id of the function that made it, and which of its outputs it is."""


def turned_signs(uses: Uses) -> Iterator[str]:
    """The modules of x where a loss has x and a square of what exp(x) multiplies, both positive.

    Or -x and one of what exp(-x) multiplies. Such a loss is the least where all is multiplied by
    nothing. A log determinant is subtracted, as in the likelihood of a flow, and so is the
    logarithm of a variance where its exponential is a factor: both signs are then different.

    Nothing after a backward, which frees what autograd has saved.

    Args:
        uses: The functions that made the loss.
    """
    if not uses.nodes:
        return
    terms = _terms_of((uses.nodes[0], 0))
    if not any(sign > 0 and _is_square(node) for node, _, sign in terms):
        return
    signs: dict[Place, set[int]] = {}
    for node, number, sign in terms:
        signs.setdefault((id(node), number), set()).add(sign)
    for node in uses.nodes[::-1]:  # nodes come from the loss back
        if name_of(node) != "Exp" or not _is_factor(uses, node):
            continue
        if _makes_choices(uses, node):
            continue
        for term, number, sign in _terms_of(node.next_functions[0]):
            if signs.get((id(term), number)) == {sign}:
                yield uses.owner(term)


def _terms_of(start: tuple[Any, int]) -> list[tuple[Any, int, int]]:
    """The functions that a number is a sum of, with the number of the output and the sign of each.

    None of a sum whose signs are not known.
    """
    left, found = [(*start, 1)], list[tuple[Any, int, int]]()
    seen = set[tuple[int, int, int]]()  # a number may come in on any number of ways
    while left:
        node, number, sign = left.pop()
        if (id(node), number, sign) in seen:
            continue
        seen.add((id(node), number, sign))
        signs = _signs_of(node)
        if signs is None:
            found.append((node, number, sign))
            continue
        for (other, of_other), own in zip(node.next_functions, signs, strict=True):
            if other is not None and own:
                left.append((other, of_other, sign * own))
    return found


def _signs_of(node: Any) -> list[int] | None:
    """The sign by which a function takes each of its operands, if it adds them up; else None."""
    name, operands = name_of(node), node.next_functions
    if name in _KEEPS:
        return [1] * len(operands)
    if name == "Neg":
        return [-1]
    if name == "Add":
        return [1] * len(operands)
    if name == "Sub":
        return [1, -1]
    if name == "Rsub":  # a number less what is computed, which is its first operand
        return [-1] * len(operands)
    if name in ("Mul", "Div"):
        sign = _sign_of_constant(node)
        return None if not sign else [sign] * len(operands)
    return None


def _sign_of_constant(node: Any) -> int:
    """The sign of the one number that something computed is multiplied by; 0 without one."""
    factor = factor_of(node) or 0
    return (factor > 0) - (factor < 0)


def _is_factor(uses: Uses, node: Any) -> bool:
    """True for what multiplies, element by element, more than a single number."""
    left = [node]
    for one in left:
        for user, _ in uses.users[id(one)]:
            if name_of(user) not in ("Mul", "Div"):
                continue
            if not _sign_of_constant(user):
                return True
            left.append(user)
    return False


def _makes_choices(uses: Uses, node: Any) -> bool:
    """True if what it multiplies comes to be logits, whose scale says how sure a choice is."""
    left, seen = [node], {id(node)}
    for one in left:
        if name_of(one) in _OF_CHOICES:
            return True
        new = {id(user): user for user, _ in uses.users[id(one)] if id(user) not in seen}
        left += new.values()
        seen |= new.keys()
    return False


_SIDES = 2
"""Operands of a product; one with a number has but one."""


def _is_square(node: Any) -> bool:
    """True for what is above 0 as a square or a loss is, and for what such a one is multiplied by.

    As by the inverse of a variance.
    """
    if name_of(node) != "Mul":
        return name_of(node) in _ABOVE_ZERO
    sides = operands_of(node)
    if len(sides) != _SIDES or None in sides:
        return False
    return sides[0] is sides[1] or any(_is_above_zero(side) for side in sides)


def _is_above_zero(node: Any) -> bool:
    """True for a square, a loss, and several of these."""
    if name_of(node) in ("Stack", "Cat"):
        return all(other is not None and _is_above_zero(other) for other in operands_of(node))
    return name_of(node) in _ABOVE_ZERO
