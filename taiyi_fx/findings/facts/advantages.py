"""Advantages that weigh the probabilities of actions, and get a gradient themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from taiyi_fx.findings.facts.autograd import (
    REARRANGES,
    Uses,
    makers_of,
    name_of,
    operands_of,
    shape_of,
)

_CHOOSING = ("Gather", "Index")
_SCALING = ("Sub", "Rsub", "Div", "Mul")
"""Functions that make an advantage, and give it a mean of 0 and a deviation of 1."""
_FAR = 6
"""Functions between the logarithm of a chosen probability and the product with an advantage."""


def trained_advantages(uses: Uses) -> Iterator[str]:
    """The modules before values that weigh, less returns, the log probabilities of actions.

    As ``-(log_prob * (returns - values)).mean()`` of chosen actions, one number for each, where the
    values get a gradient: by it they become whatever makes the product small.

    Args:
        uses: The functions that made the loss.
    """
    for node in uses.nodes:
        if name_of(node) != "Mul" or None in operands_of(node) or len(shape_of(node)) != 1:
            continue
        for chosen, weight in (operands_of(node), operands_of(node)[::-1]):
            if _is_log_of_chosen(chosen) and _is_of_difference(weight):
                yield uses.owner(weight)


def _is_log_of_chosen(node: Any) -> bool:
    """True for the logarithms of probabilities of which one is taken of each row."""
    for _ in range(_FAR):
        makers, name = makers_of(node), name_of(node)
        if not makers or name not in (*_CHOOSING, *REARRANGES, "Neg"):
            return False
        node = makers[0]
        if name in _CHOOSING and _is_log_of_shares(_plain(node)):
            return True
    return False


def _is_log_of_shares(node: Any) -> bool:
    """True for a logarithm of a softmax, also as `torch.distributions` make it."""
    if name_of(node) != "Sub":
        return name_of(node) in ("LogSoftmax", "Log")
    return any(name_of(_plain(x)) == "Logsumexp" for x in makers_of(node))


def _is_of_difference(node: Any) -> bool:
    """True for a difference of a computed tensor and one that wants no gradient, also scaled."""
    for _ in range(_FAR):
        node = _plain(node)
        operands = operands_of(node)
        if name_of(node) not in _SCALING or not makers_of(node):
            return False
        if name_of(node) in ("Sub", "Rsub") and operands.count(None) == 1:
            return True
        node = makers_of(node)[0]
    return False


def _plain(node: Any) -> Any:
    """The function behind those that only rearrange."""
    while name_of(node) in REARRANGES and makers_of(node):
        node = makers_of(node)[0]
    return node
