"""Finds, in a marked graph, the products of attention weights with values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from torch import fx, nn

from taiyi_fx.passes.capture.marks import behind_marks, is_mark, leave, pack, unpack
from taiyi_fx.passes.module_tree import submodule
from taiyi_fx.passes.weighted import Product, Weights, after, name_of, operands

Site: TypeAlias = tuple[Any, ...]
"""The module and the number of a marked call."""


def find_products(graph: fx.Graph, part: nn.Module) -> dict[Site, Product]:
    """The product that the result of each marked call leads to, by the call, if it is one only.

    Args:
        graph: A graph with marks.
        part: The module that its nodes name modules from.
    """
    found: dict[Site, list[Product]] = {}
    flowing = {
        node: [(Weights(), call) for call in calls] for node, calls in _made_at(graph).items()
    }
    for node in graph.nodes:
        if is_mark(node) or node.target in (pack, unpack):
            continue
        name, args, kwargs = _called(node, part)
        for at, operand in operands(name, args, kwargs):
            source = next(behind_marks(operand), None) if isinstance(operand, fx.Node) else None
            for weights, call in flowing.get(source, ()) if source else ():
                made = after(name, args, kwargs, at, weights, node)
                if isinstance(made, Weights):
                    flowing.setdefault(node, []).append((made, call))
                elif made is not None:
                    found.setdefault(call, []).append(made)
    return {call: products[0] for call, products in found.items() if len(products) == 1}


def _made_at(graph: fx.Graph) -> dict[fx.Node, list[Site]]:
    """The calls that each node is the result of, innermost first."""
    made: dict[fx.Node, list[Site]] = {}
    for node in graph.nodes:
        if node.op == "call_function" and node.target is leave and node.args[0]:
            source = next(behind_marks(node.args[0]), None)
            if source is not None:
                made.setdefault(source, []).append(tuple(node.args[1:]))
    return made


def _called(node: fx.Node, part: nn.Module) -> tuple[str, tuple[Any, ...], Mapping[str, Any]]:
    """The bare name of what a node calls, with its arguments."""
    if node.op == "call_module":
        module = submodule(part, str(node.target))
        is_dropout = isinstance(module, (nn.modules.dropout._DropoutNd, nn.Identity))
        return "dropout" if is_dropout else "", node.args, node.kwargs
    if node.target is getattr:
        return name_of(node.args[1]), node.args[:1], {}
    is_call = node.op in ("call_function", "call_method")
    return name_of(node.target) if is_call else "", node.args, node.kwargs
