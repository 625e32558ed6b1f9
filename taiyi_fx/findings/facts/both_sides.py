"""Functions on the way to a loss both of whose operands are computed, and should not be so."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from taiyi_fx.findings.facts.autograd import (
    REARRANGES,
    Uses,
    all_before,
    maker_of,
    name_of,
    nodes_near,
    operands_of,
    saved_by,
)
from taiyi_fx.findings.facts.given_to_losses import OF_ERRORS
from taiyi_fx.findings.facts.squashed import size_of_unit

_LAYERS = ("Addmm", "Mm", "Convolution")
_LINEAR = frozenset("Neg Mean Sum Add Sub Rsub Mul Div Stack Squeeze Unsqueeze View Expand".split())
"""Functions by which terms are added up, with weights."""
_NEAR = 6
"""Functions between a ratio and the sums that it is of: a factor, and what keeps it from 0 / 0."""
_OFF = 1e-3
"""How far a ratio is from 1 that no rounding takes there."""


def moving_targets(uses: Uses) -> Iterator[str]:
    """The modules before the targets of errors and divergences that get gradients, too.

    Of an error, if both sides are of one model: two that are trained to agree are another matter.

    Args:
        uses: The functions that made the loss.
    """
    for sides in _both_of(uses, OF_ERRORS):
        if _share_parameters(sides, uses):
            yield uses.owner(sides[0])
    # Torch's divergence is of t log t less t times what it is given.
    for node in uses.nodes:
        if name_of(node) == "Xlogy" and len(known := set(operands_of(node)) - {None}) == 1:
            yield uses.owner(known.pop())


def pulled_alone(uses: Uses) -> str | None:
    """The module before what a loss pulls together and nothing holds apart; None of other losses.

    As of a loss of cosines, or of errors, between outputs of one model that all get gradients, and
    of nothing else: it is the least where all samples are alike.

    Args:
        uses: The functions that made the loss.
    """
    level, terms, seen = uses.nodes[:1], list[list[Any]](), set[int]()
    while level:
        node = level.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        sides = operands_of(node)
        is_of_two = len(sides) == 2 and None not in sides
        if is_of_two and (_is_of_outputs(node) or _is_of_cosine(node)):
            terms.append(sides)
        elif name_of(node) in _LINEAR and not (is_of_two and name_of(node) in ("Mul", "Div")):
            level += [side for side in sides if side is not None]
        else:
            return None
    is_one_model = bool(terms) and all(_share_parameters(sides, uses) for sides in terms)
    return uses.owner(terms[0][0]) if is_one_model else None


def _is_of_outputs(node: Any) -> bool:
    """True for an error between what two layers return, or two unit vectors, as they are.

    A return of a policy, a reward and the value of what comes next, is held where it is.
    """
    if name_of(node) not in OF_ERRORS:
        return False
    return all(
        size_of_unit(side) is not None or name_of(_behind_views(side)) in _LAYERS
        for side in operands_of(node)
    )


def _behind_views(node: Any) -> Any:
    return node if name_of(node) not in REARRANGES else maker_of(node) or node


def _is_of_cosine(node: Any) -> bool:
    """True for products of unit vectors, element by element, or of rows with rows."""
    return name_of(node) == "Mul" and None not in map(size_of_unit, operands_of(node))


def _share_parameters(sides: Iterable[Any], uses: Uses) -> bool:
    """True if both sides of a term are made by parameters of the model that they have in common."""
    first, second = (
        {id(x.variable) for x in all_before([side]) if hasattr(x, "variable")} for side in sides
    )
    return any(own in uses.parameters for own in first & second)


def overlaps_of_logits(uses: Uses) -> Iterator[Any]:
    """The layers whose output a ratio of sums, as Dice's, takes for shares between 0 and 1.

    The one sum is of it times a target, and the other of it as it is.

    Args:
        uses: The functions that made the loss.
    """
    for sides in _both_of(uses, ("Div",)):
        above, below = ([*nodes_near(side, ("Sum",), _NEAR)] for side in sides)
        products = [given for one in above if (given := _times_target(one)) is not None]
        plain = [maker_of(one) for one in below]
        for layer in products:
            if name_of(layer) in _LAYERS and any(layer is one for one in plain):
                yield layer


def _times_target(total: Any) -> Any:
    """The factor of a product with what wants no gradient, which is summed; else None."""
    product = maker_of(total)
    if product is None or name_of(product) != "Mul" or operands_of(product).count(None) != 1:
        return None
    return maker_of(product)


def odd_ratios(uses: Uses) -> Iterator[float]:
    """The shares of ratios of probabilities, in PPO's bounded loss, that differ from 1.

    Nothing after a backward, which frees what autograd has saved.

    Args:
        uses: The functions that made the loss.
    """
    for sides in _both_of(uses, ("Minimum",)):
        first, second = ([*nodes_near(side, ("Exp",), _NEAR)] for side in sides)
        for ratio in (one for one in first if any(one is other for other in second)):
            difference = operands_of(ratio)[0]
            is_of_two = difference is not None and name_of(difference) == "Sub"
            ratios = saved_by(ratio, "result") if is_of_two else None
            if ratios is not None:
                yield float(((ratios - 1).abs() > _OFF).double().mean())


def _both_of(uses: Uses, names: Collection[str]) -> Iterator[list[Any]]:
    """The two operands of each function of some names of which both are computed."""
    for node in uses.nodes:
        sides = operands_of(node) if name_of(node) in names else []
        if len(sides) == 2 and None not in sides:
            yield sides
