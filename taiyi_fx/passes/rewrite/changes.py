"""Nodes that may mutate their inputs."""

# A reading may move from one probe to another only if nothing writes into the tensor in between.
# The answer has to be right for any model, so a node may write unless it is known not to: it is
# harmless if it is one of torch's own modules or functions and nothing about it says that it works
# in place. Torch says so by convention: a trailing underscore, `inplace=True` (also as a positional
# True, as in `F.relu(x, True)`), or `out=`. Views are not looked at here: `fuse_probes` puts all
# nodes that may share memory into one set, and a write to one of them counts for the whole set.
from __future__ import annotations

import operator
from collections.abc import Mapping

from torch import fx, nn

from taiyi_fx.passes.capture.marks import pack, unpack
from taiyi_fx.passes.capture.modules import is_torchs
from taiyi_fx.passes.capture.operators import IN_PLACE_OPERATORS
from taiyi_fx.passes.capture.unpacking import items_of
from taiyi_fx.passes.module_tree import has_children, submodule
from taiyi_fx.passes.rewrite.insert_probes import is_probe
from taiyi_fx.passes.structure import attribute_of


def called_modules(graph: fx.Graph, part: nn.Module) -> dict[str, nn.Module]:
    """The modules that a graph calls, by the names it has for them."""
    names = {str(node.target) for node in graph.nodes if node.op == "call_module"}
    return {name: submodule(part, name) for name in names}


def may_change_inputs(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """True if the node may mutate its inputs.

    Args:
        node: The node.
        modules: Those that its graph calls.
    """
    if is_probe(node):
        return False
    if node.op == "call_module":
        module = modules[str(node.target)]
        holds_others = has_children(module)
        return bool(attribute_of(module, "inplace")) or holds_others or not is_torchs(module)
    if node.op == "call_method":
        return str(node.target).endswith("_") and not str(node.target).endswith("__")
    harmless = (pack, unpack, items_of, getattr, operator.getitem)
    if node.op != "call_function" or node.target in harmless:
        return False
    return _function_changes(node)


def _function_changes(node: fx.Node) -> bool:
    assert callable(node.target)
    owner = getattr(node.target, "__module__", None) or ""
    name = getattr(node.target, "__name__", "")
    if owner == "_operator":
        return node.target in IN_PLACE_OPERATORS or node.target in (
            operator.setitem,
            operator.delitem,
        )
    is_torch = owner.startswith("torch") or type(node.target).__name__.startswith("builtin")
    asks = any(a is True for a in node.args) or node.kwargs.get("inplace") or "out" in node.kwargs
    return not is_torch or name.endswith("_") or bool(asks)
