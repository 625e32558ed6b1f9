"""A backward that leaves gradients in nothing but some parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor


def backward(loss: Tensor, parameters: Sequence[Tensor]) -> None:
    """Leaves in ``Tensor.grad`` of some parameters the gradient of a loss, or None.

    Other leaves of its graph, such as a tensor of the user's that is in no module, keep what they
    had. ``torch.autograd.grad`` would not do: what is behind a reentrant checkpoint, or a
    reversible layer, gets its gradient by a backward within the backward, in ``Tensor.grad`` alone.
    """
    for parameter in parameters:
        parameter.grad = None
    if not loss.requires_grad:
        return
    own = set(map(id, parameters))
    leaves = [x for node in nodes(loss) if (x := getattr(node, "variable", None)) is not None]
    others = [(x, x.grad) for x in leaves if id(x) not in own]
    for leaf, _ in others:
        leaf.grad = None  # else it would be added to in place
    try:
        loss.backward()
    finally:
        for leaf, gradient in others:
            leaf.grad = gradient


def nodes(loss: Tensor) -> Iterator[Any]:
    """The nodes of autograd's graph that made a tensor."""
    waiting, met = [loss.grad_fn], set[Any]()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in met:
            met.add(node)
            yield node
            waiting += [edge for edge, _ in node.next_functions]
