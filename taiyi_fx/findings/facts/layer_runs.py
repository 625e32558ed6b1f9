"""Linear layers that nothing parts in a loss's graph, and those that are added to themselves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from taiyi_fx.findings.facts.autograd import (
    REARRANGES,
    Uses,
    all_before,
    axis_of,
    is_scaled,
    makers_of,
    name_of,
    operands_of,
    shape_of,
)

_LINEAR = ("Addmm", "Mm")
_LAYERS = (*_LINEAR, "Bmm", "Convolution")
_PASSES = REARRANGES - {"Cat"} | {"NativeDropout"}
"""Functions that hand on what one layer returns, and nothing else with it."""
_FEWEST = 3
"""Layers of a run: two are often a product that is kept in parts."""


def linear_runs(uses: Uses) -> tuple[tuple[str, ...], ...]:
    """The names of three linear layers and more, one behind the other with nothing in between.

    Views and fused dropouts are nothing. A product is an activation: what it multiplies by may be
    a mask, which depends on the values. Not where layers are linear on purpose: those of one
    width, factors of a matrix of low rank, and those of which one is given what it returned, as
    the step of a linear system is.

    Args:
        uses: The functions that made the loss.
    """
    runs = [*_runs(uses)]
    repeated = {id(_weight_of(run[-1])) for run in runs if _ends_in_a_repeat(run)}
    found: list[tuple[str, ...]] = []
    for run in runs:
        weights = [_weight_of(x) for x in reversed(run)]
        if len(run) < _FEWEST or any(id(weight) in repeated for weight in weights):
            continue
        names = tuple(uses.parameters.get(id(weight), "") for weight in weights)
        if all(names) and not _is_meant([weight.shape for weight in weights]):
            found.append(names)
    return tuple(found)


def _runs(uses: Uses) -> Iterator[list[Any]]:
    """Linear layers that nothing parts, the last first, as far as the first weight that repeats."""
    before = {id(x): _layer_before(x) for x in uses.nodes if _weight_of(x) is not None}
    inner = {id(layer) for layer in before.values()}
    for node in uses.nodes:
        if id(node) not in before or id(node) in inner:
            continue
        run = [node]
        while (layer := before[id(run[-1])]) is not None and not _ends_in_a_repeat(run):
            run.append(layer)
        yield run


def _ends_in_a_repeat(run: list[Any]) -> bool:
    """True for layers of which the first one has the weight of another."""
    *others, first = map(_weight_of, run)
    return any(first is weight for weight in others)


def _weight_of(node: Any) -> Any:
    """The weight of a linear layer that is trained; None of what is none."""
    if name_of(node) not in _LINEAR:
        return None
    turned = operands_of(node)[-1]
    leaf = next(iter(makers_of(turned)), None) if turned and name_of(turned) == "T" else None
    return getattr(leaf, "variable", None)


def _layer_before(node: Any) -> Any:
    """The linear layer that returns what another is given, as it is; else None."""
    given = operands_of(node)[-2]
    while given is not None and name_of(given) in _PASSES:
        given = operands_of(given)[0]
    return given if given is not None and _weight_of(given) is not None else None


def _is_meant(shapes: list[tuple[int, int]]) -> bool:
    """True for weights, the first first, of one width, or with a width below both beside it."""
    widths = [shapes[0][1], *(returned for returned, _ in shapes)]
    widths = [width for width, _ in groupby(widths)]
    inner = zip(widths, widths[1:], widths[2:], strict=False)
    return len(widths) == 1 or any(width < min(a, b) for a, width, b in inner)


def doubled_layers(uses: Uses) -> list[Any]:
    """The sums of what a layer returns and the same once more, as ``x = f(x); x = x + x`` is.

    Not where nothing of that shape was there before, which one could have meant to add.

    Args:
        uses: The functions that made the loss.
    """
    sums = (x for x in uses.nodes if name_of(x) == "Add" and len(operands_of(x)) > 1)
    return [x for x in sums if x._saved_alpha == 1 and _is_doubled(*operands_of(x))]


def joined_with_themselves(uses: Uses) -> list[Any]:
    """The joins of two along another axis than the samples' that are one and the same.

    Likewise not where nothing of that shape was there before.

    Args:
        uses: The functions that made the loss.
    """
    joins = (x for x in uses.nodes if name_of(x) == "Cat" and len(x.next_functions) == 2)
    return [x for x in joins if axis_of(x._saved_dim, len(shape_of(x))) and _is_one(x)]


def _is_one(join: Any) -> bool:
    (made, place), other = join.next_functions
    if made is None or (made, place) != other or len(shape := shape_of(made)) < 2:
        return False
    return any(shape_of(x) == shape for x in _before_layer(made))


def _before_layer(made: Any) -> list[Any]:
    """All functions before the layer that made something."""
    level = [made]
    for node in all_before(level):
        if name_of(node) in _LAYERS:
            return all_before(makers_of(node))
    return []


def _is_doubled(made: Any, other: Any) -> bool:
    if made is not other:
        return False
    layer, shape = made, shape_of(made)
    while layer is not None and (name_of(layer) in _PASSES or is_scaled(layer)):
        layer = operands_of(layer)[0]
    is_layer = layer is not None and len(shape) > 1 and name_of(layer) in _LAYERS
    return is_layer and any(shape_of(x) == shape for x in all_before(makers_of(layer)))
