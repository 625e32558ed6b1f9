"""One tensor is read once: probes that see the same value become one."""

from __future__ import annotations

import functools
import operator
from collections import defaultdict

from torch import fx, nn

from taiyi_fx.passes.insert_probes import is_probe, set_slots
from taiyi_fx.passes.ir import VALUE_PORTS
from taiyi_fx.passes.marks import pack, unpack
from taiyi_fx.passes.probe import Probe
from taiyi_fx.passes.proxies import IN_PLACE_OPERATORS
from taiyi_fx.passes.slots import Slot

# Their outputs share no memory with their inputs, and they leave their inputs alone.
_FRESH = (
    nn.Linear,
    nn.Bilinear,
    nn.modules.conv._ConvNd,
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.Embedding,
    nn.RNNBase,
    nn.MultiheadAttention,
)


def fuse_probes(graph: fx.Graph, root: nn.Module) -> fx.Graph:
    """Moves readings to the first probe of the same tensor, in place.

    Values may move across nodes that cannot have changed the tensor. Gradients move only along
    an edge that is the tensor's sole use: there both sides see the same gradient.
    """
    order = {node: i for i, node in enumerate(graph.nodes)}
    by_source: dict[fx.Node, list[fx.Node]] = defaultdict(list)
    for node in graph.nodes:
        value = node.args[0] if is_probe(node) else None
        if isinstance(value, fx.Node) and value.target is not pack:
            by_source[_source(node)].append(node)
    for source, probes in by_source.items():
        aliases = _aliases(source, root)
        mutations = [order[n] for n in order if _changes(n, aliases, root)]
        first = probes[0]
        for second in probes[1:]:
            if any(order[first] < at < order[second] for at in mutations):
                first = second
            else:
                _fuse(graph, first, second)
    return graph


def _source(node: fx.Node) -> fx.Node:
    while is_probe(node) and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def _fuse(graph: fx.Graph, first: fx.Node, second: fx.Node) -> None:
    earlier, later = first.target, second.target
    assert isinstance(earlier, Probe)
    assert isinstance(later, Probe)
    sole_use = second.args[0] is first and list(first.users) == [second]
    moved = [slot for slot in later.slots if _may_move(slot, sole_use)]
    kept = [slot for slot in later.slots if slot not in moved]
    set_slots(graph, first, earlier.__name__, (*earlier.slots, *moved))
    set_slots(graph, second, later.__name__, kept)


def _may_move(slot: Slot, sole_use: bool) -> bool:
    site = slot.reading.site
    return site.pick is None and (sole_use or site.port in VALUE_PORTS)


def _aliases(source: fx.Node, root: nn.Module) -> set[fx.Node]:
    """Nodes whose value may share memory with the source's."""
    found, waiting = {source}, [source]
    while waiting:
        node = waiting.pop()
        near = [user for user in node.users if not _is_fresh(user, root)]
        if not _is_fresh(node, root):
            near += node.all_input_nodes
        new = set(near) - found
        found |= new
        waiting += new
    return found


def _is_fresh(node: fx.Node, root: nn.Module) -> bool:
    if node.op != "call_module":
        return False
    return type(root.get_submodule(str(node.target))) in _classes(_FRESH)


@functools.cache
def _classes(bases: tuple[type, ...]) -> frozenset[type]:
    known = [c for c in vars(nn).values() if isinstance(c, type)]
    return frozenset(c for c in known if issubclass(c, bases))


def _changes(node: fx.Node, aliases: set[fx.Node], root: nn.Module) -> bool:
    """Whether a node may write into memory that the aliases share."""
    if aliases.isdisjoint(node.all_input_nodes) or is_probe(node):
        return False
    if node.op == "call_module":
        module = root.get_submodule(str(node.target))
        return getattr(module, "inplace", False) or type(module) not in _classes((nn.Module,))
    if node.op == "call_method":
        return str(node.target).endswith("_") and not str(node.target).endswith("__")
    if node.op != "call_function" or node.target in (pack, unpack, getattr, operator.getitem):
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
