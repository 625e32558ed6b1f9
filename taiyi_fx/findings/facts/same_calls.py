"""Layers that are run twice on the very same values, for one loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from taiyi_fx.findings.facts.autograd import Uses, name_of, operands_of, parameter_before, saved_by

_GIVEN = {"Addmm": "mat1", "Mm": "self", "Convolution": "input", "Embedding": "indices"}
"""The functions of layers, and the name by which each saves what it is given."""


def same_calls(uses: Uses) -> Iterator[Any]:
    """The first layer, if all layers are run twice, each time on the same values to the last bit.

    So the second time says what the first one said: nothing is drawn in between.

    Args:
        uses: The functions that made the loss.
    """
    calls: dict[int, list[Any]] = {}
    for node in uses.nodes:
        weight = _weight_of(node) if name_of(node) in _GIVEN else None
        if id(weight) in uses.parameters:
            calls.setdefault(id(weight), []).append(node)
    every = [*calls.values()]
    if every and all(len(nodes) > 1 and _are_same(nodes) for nodes in every):
        yield every[-1][-1]


def _weight_of(node: Any) -> Any:
    """The matrix, or the kernel, that a layer takes; None of a product of others."""
    weights = [parameter_before(x) for x in operands_of(node)]
    known = [x for x in weights if x is not None and x.dim() > 1]
    return known[-1] if known else None


def _are_same(nodes: Sequence[Any]) -> bool:
    given = [saved_by(node, _GIVEN[name_of(node)]) for node in nodes]
    # A table may be that of an embedding and of the last layer: indices are no features.
    kinds = {(x.dtype, x.shape) for x in given if x is not None}
    is_one_kind = len(kinds) == 1 and all(x is not None for x in given)
    return is_one_kind and all(x.equal(given[0]) for x in given[1:])
