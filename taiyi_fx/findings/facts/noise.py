"""Noise whose scale a loss takes for something else, as a variational autoencoder's may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from taiyi_fx.findings.facts.autograd import Uses, name_of, saved_by

_FEW = 16
"""Numbers of which some are positive and some negative, if they are noise."""


class OddNoise(NamedTuple):
    """Noise that is multiplied by another function of a logarithm than the loss takes it for.

    Attributes:
        module: The module that returns the logarithm; empty if it is not known.
        is_exponential: True if it is multiplied by its exponential; else by the logarithm itself.
    """

    module: str
    is_exponential: bool


def odd_noise(uses: Uses) -> Iterator[OddNoise]:
    """Noise times x, or times exp(x), where a loss takes x for the logarithm of a variance.

    As in the divergence of a normal distribution from the standard one, 1 + x - mean**2 - exp(x).
    The deviation is exp(x / 2). Nothing after a backward, which frees what autograd has saved.

    Args:
        uses: The functions that made the loss.
    """
    variances = _log_variances(uses)
    for node in uses.nodes if variances else ():
        for factor, number in node.next_functions if _is_added_noise(uses, node) else ():
            if factor is None:
                continue
            if (id(factor), number) in variances:
                yield OddNoise(uses.owner(factor), is_exponential=False)
            elif name_of(factor) == "Exp":
                given, of_given = factor.next_functions[0]
                if (id(given), of_given) in variances:
                    yield OddNoise(uses.owner(given), is_exponential=True)


def log_variances(uses: Uses) -> frozenset[str]:
    """The modules whose output a loss takes for the logarithm of a variance, as above.

    Args:
        uses: The functions that made the loss.
    """
    names = (uses.owner(node) for node in _log_variances(uses).values())
    return frozenset(names) - {""}


def _log_variances(uses: Uses) -> dict[tuple[int, int], Any]:
    """The numbers that a loss takes for them, by their function's id and place among its outputs.

    The halves that `chunk` returns have one function.
    """
    found: dict[tuple[int, int], Any] = {}
    for node in uses.nodes:
        given, number = node.next_functions[0] if name_of(node) == "Exp" else (None, 0)
        if given is not None and _is_in_a_difference(uses, node):
            found[id(given), number] = given
    return found


def _is_in_a_difference(uses: Uses, node: Any) -> bool:
    """True if it is one side of a difference, or of a sum, with what it is the exponential of."""
    level, seen = [node], {id(node)}
    for _ in range(4):
        users = {id(user): user for x in level for user, _ in uses.users[id(x)]}
        level = [user for own, user in users.items() if own not in seen]
        seen |= users.keys()
        for user in level:
            if name_of(user) in ("Sub", "Add") and _reaches(user, node.next_functions[0], node):
                return True
        level = [user for user in level if name_of(user) in ("Neg", "Sub", "Add", "Mul")]
    return False


def _reaches(start: Any, end: tuple[Any, int], without: Any) -> bool:
    """True if a sum has a number as one of its terms, on another way than by some function."""
    left, seen = [start], {id(start), id(without)}
    for node in left:
        for pair in node.next_functions:
            if pair == end:
                return True
            other, _ = pair
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                left += [other] * (name_of(other) in ("Neg", "Sub", "Add", "Mul"))
    return False


def _is_added_noise(uses: Uses, node: Any) -> bool:
    """True for a product with numbers of both signs that is added to what is computed."""
    operands = [other for other, _ in node.next_functions]
    if name_of(node) != "Mul" or operands.count(None) != 1 or not _is_added(uses, node):
        return False
    name = "self" if operands[0] is None else "other"
    noise = saved_by(node, name)
    if noise is None or noise.numel() < _FEW:
        return False
    return bool((noise > 0).any()) and bool((noise < 0).any())


def _is_added(uses: Uses, node: Any) -> bool:
    return any(
        name_of(user) == "Add" and None not in [other for other, _ in user.next_functions]
        for user, _ in uses.users[id(node)]
    )
