"""Linear layers that nothing parts in a loss's graph, and those that are added to themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taiyi_fx.findings.facts.autograd import (
    REARRANGES,
    Uses,
    is_scaled,
    makers_of,
    name_of,
    operands_of,
    shape_of,
)

_LINEAR = ("Addmm", "Mm")
_LAYERS = (*_LINEAR, "Bmm", "Convolution")
_PASSES = (*REARRANGES, "NativeDropout")
_FEWEST = 3
"""Layers of a run: two are often a product that is kept in parts."""


def linear_runs(uses: Uses, parameters: Mapping[int, str]) -> tuple[tuple[str, ...], ...]:
    """The names of three linear layers and more, one behind the other with nothing in between.

    Views, dropouts and constant factors are nothing. Not where one of them returns fewer features
    than are given to the first and returned by the last, as factors of a matrix of low rank do.

    Args:
        uses: The functions that made the loss.
        parameters: The module of each parameter, by the parameter's id.
    """
    before = {id(x): _layer_before(x) for x in uses.nodes if _weight_of(x) is not None}
    inner = {id(layer) for layer in before.values()}
    found: list[tuple[str, ...]] = []
    for node in uses.nodes:
        if id(node) not in before or id(node) in inner:
            continue
        run = [node]
        while (layer := before[id(run[-1])]) is not None:
            run.append(layer)
        if len(run) >= _FEWEST and not _has_low_rank([_weight_of(x).shape for x in run]):
            names = tuple(parameters.get(id(_weight_of(x)), "") for x in reversed(run))
            found += [names] if all(names) else []
    return tuple(found)


def _weight_of(node: Any) -> Any:
    """The weight of a linear layer that is trained; None of what is none."""
    if name_of(node) not in _LINEAR:
        return None
    turned = operands_of(node)[-1]
    leaf = next(iter(makers_of(turned)), None) if turned and name_of(turned) == "T" else None
    return getattr(leaf, "variable", None)


def _layer_before(node: Any) -> Any:
    """The linear layer that returns what another is given, as it is; else None."""
    given = _behind_passes(operands_of(node)[-2])
    return given if given is not None and _weight_of(given) is not None else None


def _behind_passes(node: Any) -> Any:
    """The function whose values others hand on, or drop some of; or None."""
    while node is not None and (name_of(node) in _PASSES or is_scaled(node)):
        node = next(iter(operands_of(node)), None)
    return node


def _has_low_rank(shapes: list[tuple[int, int]]) -> bool:
    """True for weights, the last first, of which one has fewer rows than the ends are wide."""
    return min(shape[1] for shape in shapes[:-1]) < min(shapes[0][0], shapes[-1][1])


def doubled_layers(uses: Uses) -> list[Any]:
    """The sums of what a layer returns and the same once more, as ``x = f(x); x = x + x`` is.

    Args:
        uses: The functions that made the loss.
    """
    return [node for node in uses.nodes if _is_doubled(node)]


def _is_doubled(node: Any) -> bool:
    operands = operands_of(node)
    is_own = name_of(node) == "Add" and len(operands) > 1 and operands[0] is operands[1]
    made = _behind_passes(operands[0]) if is_own else None
    return made is not None and name_of(made) in _LAYERS and len(shape_of(node)) > 1
