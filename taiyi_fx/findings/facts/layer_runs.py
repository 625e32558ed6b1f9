"""Linear layers that nothing parts in a loss's graph, and those that are added to themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
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
_PASSES = (*(name for name in REARRANGES if name != "Cat"), "NativeDropout")
"""Functions that hand on what one layer returns, and nothing else with it."""
_FEWEST = 3
"""Layers of a run: two are often a product that is kept in parts."""


def linear_runs(uses: Uses, parameters: Mapping[int, str]) -> tuple[tuple[str, ...], ...]:
    """The names of three linear layers and more, one behind the other with nothing in between.

    Views and fused dropouts are nothing. A product is an activation: what it multiplies by may be
    a mask, which depends on the values. Not where layers are linear on purpose: those of one
    width, factors of a matrix of low rank, and those of which one is given what it returned, as
    the step of a linear system is.

    Args:
        uses: The functions that made the loss.
        parameters: The module of each parameter, by the parameter's id.
    """
    runs = [*_runs(uses)]
    repeated = {id(_weight_of(run[-1])) for run in runs if _ends_in_a_repeat(run)}
    found: list[tuple[str, ...]] = []
    for run in runs:
        weights = [_weight_of(x) for x in reversed(run)]
        if len(run) < _FEWEST or any(id(weight) in repeated for weight in weights):
            continue
        names = tuple(parameters.get(id(weight), "") for weight in weights)
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
    return [node for node in uses.nodes if _is_doubled(node)]


def _is_doubled(node: Any) -> bool:
    operands, shape = operands_of(node), shape_of(node)
    is_of_two = name_of(node) == "Add" and len(operands) > 1
    if not is_of_two or operands[0] is not operands[1] or len(shape) < 2:
        return False
    made = operands[0]
    while made is not None and (name_of(made) in _PASSES or is_scaled(made)):
        made = operands_of(made)[0]
    is_layer = made is not None and name_of(made) in _LAYERS
    return is_layer and node._saved_alpha == 1 and (_is_square(made) or _comes_after(made, shape))


def _is_square(layer: Any) -> bool:
    """True for a layer that returns as many features as it is given."""
    is_linear = name_of(layer) in _LINEAR
    weight = _weight_of(layer) if is_linear else getattr(operands_of(layer)[1], "variable", None)
    return weight is not None and weight.shape[0] == weight.shape[1]


def _comes_after(node: Any, shape: tuple[int, ...]) -> bool:
    """True if one of the functions before another made something of a shape."""
    nodes = makers_of(node)
    seen = set(nodes)
    for x in nodes:  # which grows on the way
        if shape_of(x) == shape:
            return True
        nodes += [y for y in makers_of(x) if y not in seen]
        seen.update(makers_of(x))
    return False
