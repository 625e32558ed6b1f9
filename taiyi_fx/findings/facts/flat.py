"""Functions without a slope on the only way from weights to a loss, as a rounding is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from taiyi_fx.findings.facts.autograd import Uses, all_before, is_parameter, makers_of, name_of

_FLAT = frozenset({"Round", "Floor", "Ceil", "Trunc", "Sign"})
_EXTREMES = frozenset({"Max", "Amax", "Min", "Amin", "Aminmax"})


class Flat(NamedTuple):
    """A function whose gradient is 0 everywhere.

    Attributes:
        function: Its name.
        module: The module whose parameters come next before it; empty if it is not known.
    """

    function: str
    module: str


def flat_functions(uses: Uses) -> Iterator[Flat]:
    """The functions without a slope, before which are weights that nothing else leads to the loss.

    Args:
        uses: The functions that made the loss.
    """
    flat = [node for node in uses.nodes if name_of(node) in _FLAT]
    if flat:
        pulled = _parameters_among(_reached(uses.nodes[0]), uses)
        for node in flat:
            if _parameters_among(all_before([node]), uses) - pulled:
                yield Flat(name_of(node).lower(), uses.owner(node))


def _reached(loss: Any) -> list[Any]:
    """All functions that the loss's gradient reaches as something else than zeros."""
    left, found = [loss], dict[int, Any]()
    while left:
        node = left.pop()
        if id(node) not in found and name_of(node) not in _FLAT and not _is_of_largest(node):
            found[id(node)] = node
            left += makers_of(node)
    return [*found.values()]


def _is_of_largest(node: Any) -> bool:
    """True for the largest of a weight's elements, by which it is rounded: it alone is pulled."""
    of = next(iter(makers_of(node)), None) if name_of(node) in _EXTREMES else None
    if of is not None and name_of(of) == "Abs":
        of = next(iter(makers_of(of)), None)
    return is_parameter(of)


def _parameters_among(nodes: list[Any], uses: Uses) -> set[int]:
    known = {id(getattr(node, "variable", None)) for node in nodes}
    return known & uses.parameters.keys()
