"""The nodes of autograd's graph that a call made, found by their numbers.

Autograd numbers its nodes as a thread makes them, so that those of a call have numbers between
those at its two ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor
from torch.autograd.graph import Node

Edges = tuple[tuple[Any, int], ...]
"""The nodes that a node passes gradients on to, None for no node, each with one of its outputs."""


def nodes_of(
    tensors: Iterable[Tensor], numbers: range, met: set[Node] | None = None
) -> Iterator[tuple[Node, Edges]]:
    """The nodes of these numbers that tensors depend on, each once, with the edges from there.

    Args:
        tensors: The tensors.
        numbers: The numbers.
        met: The nodes that are left out, as they were met before; gets all that are met now.
    """
    met = set() if met is None else met
    waiting = [x.grad_fn for x in tensors]
    while waiting:
        node = waiting.pop()
        if node is None or node in met or node._sequence_nr() not in numbers:
            continue
        met.add(node)
        edges = node.next_functions
        yield node, edges
        waiting += [other for other, _ in edges]
