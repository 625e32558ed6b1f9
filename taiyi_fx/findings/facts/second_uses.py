"""Weights that a loss uses more than once, or in several ways, as that of a derivative does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from taiyi_fx.findings.facts.autograd import KEEPS, TURNS, Uses, name_of

_SIDES = 2
"""Axes of a matrix: gains and biases are of one."""

_LAYERS = frozenset("Addmm Mm Bmm Baddbmm Convolution Embedding MkldnnRnnLayer CudnnRnn".split())
"""Functions of layers that take a weight."""

Way = tuple[str, int, bool]
"""The function that takes a weight, the place of the operand, and True if it is transposed."""


def used_in_several_ways(uses: Uses) -> frozenset[str]:
    """The modules whose weight is used otherwise than by the function of their forward alone.

    The layers of a model whose loss has a derivative with respect to the input in it
    (``create_graph=True``) are: the way back multiplies by the weight as well. So is a weight in a
    penalty, or one that is an embedding elsewhere. Its gradient is more than what its layer makes.

    Args:
        uses: The graph of the loss.
    """
    found = set[str]()
    for node in uses.nodes:
        weight = getattr(node, "variable", None)
        name = uses.parameters.get(id(weight), "")
        is_matrix = name and weight is not None and weight.dim() >= _SIDES
        if is_matrix and len({*_ways(uses, node)}) > 1:
            found.add(name)
    return frozenset(found)


def are_used_once(uses: Uses) -> bool:
    """True if each weight that a loss depends on is taken once, as it is, by a layer's function.

    So the loss is of one forward, and of the weights themselves: not of what a step of their own,
    for one task, makes of them. False where it depends on no weight.

    Args:
        uses: The graph of the loss.
    """
    known = (node for node in uses.nodes if id(getattr(node, "variable", None)) in uses.parameters)
    every = [[*_ways(uses, node)] for node in known if node.variable.dim() >= _SIDES]
    takers = [name.partition("Backward")[0] for ways in every for name, _, _ in ways]
    return len(takers) == len(every) > 0 and _LAYERS.issuperset(takers)


def _ways(uses: Uses, node: Any, *, is_turned: bool = False) -> Iterator[Way]:
    for user, place in uses.users[id(node)]:
        if name_of(user) in TURNS:
            yield from _ways(uses, user, is_turned=not is_turned)
        elif name_of(user) in KEEPS:
            yield from _ways(uses, user, is_turned=is_turned)
        else:
            # "ConvolutionBackwardBackward0" is another function than "ConvolutionBackward0".
            yield user.name(), place, is_turned
