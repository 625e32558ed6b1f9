"""Scores in a graph under way: what is made of a product of two computed tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import fx

from taiyi_fx.passes.capture.marks import behind_marks
from taiyi_fx.passes.weighted import is_product, keeps_scores, name_of, operands

_MOST = 64
"""The most operations between a product and a softmax: enough for masks, scales and biases."""


def is_of_scores(args: Any, kwargs: Mapping[str, Any]) -> bool:
    """True if the first tensor of a call is made of a product of two computed tensors.

    A product with a parameter is none: that is a linear layer, as of a classifier or a router.
    """
    waiting = list(behind_marks([next(iter((*args, *kwargs.values())), None)]))[:1]
    seen: set[fx.Node] = set()
    while waiting and len(seen) < _MOST:
        node = waiting.pop()
        if node in seen or node.op not in ("call_function", "call_method"):
            continue
        seen.add(node)
        name, sources = _named(node), list(_sources(node))
        if is_product(name):
            if not any(source.op == "get_attr" for source in sources):
                return True
        elif keeps_scores(name):
            waiting += sources
    return False


def _named(node: fx.Node) -> str:
    return name_of(node.args[1] if node.target is getattr else node.target)


def _sources(node: fx.Node) -> Iterator[fx.Node]:
    """The nodes that made a node's operands."""
    for _, operand in operands(_named(node), node.args, node.kwargs):
        if isinstance(operand, fx.Node):
            yield from behind_marks(operand)
