"""Fuses probes that see the same value, so that each tensor is read once."""

from __future__ import annotations

from collections import defaultdict

from networkx.utils import UnionFind
from torch import fx, nn

from taiyi_fx.passes.capture.marks import pack
from taiyi_fx.passes.ir import VALUE_PORTS
from taiyi_fx.passes.probes.probe import Probe
from taiyi_fx.passes.probes.slots import Slot
from taiyi_fx.passes.rewrite.changes import called_modules, may_change_inputs
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.fresh import is_fresh, makes_new
from taiyi_fx.passes.rewrite.insert_probes import is_probe, set_slots


def fuse_probes(graph: fx.Graph, context: Context) -> fx.Graph:
    """Moves readings to the first probe of the same tensor, in place.

    Values may move across nodes that cannot have changed the tensor. Gradients move only along
    an edge that is the tensor's sole use: there both sides see the same gradient. The meta of each
    probe says if nothing can change its value later, in the graph or at all, and if the graph may
    return its value.
    """
    by_source: dict[fx.Node, list[fx.Node]] = defaultdict(list)
    for node in graph.nodes:
        value = node.args[0] if is_probe(node) else None
        if isinstance(value, fx.Node) and value.target is not pack:
            by_source[_source(node)].append(node)
    memory = _Memory(graph, context.part)
    for source, probes in by_source.items():
        changes = memory.changes_of(source)
        for probe in probes:
            is_last = all(at < memory.order[probe] for at in changes)
            probe.meta["is_last"] = is_last
            probe.meta["stays"] = is_last and not memory.is_known_outside(source)
            probe.meta["is_returned"] = memory.is_returned(source)
        is_new = makes_new(source, memory.modules)
        _fuse_all(graph, probes, changes, memory.order, is_new=is_new)
    _move_ends(graph)
    return graph


def _fuse_all(
    graph: fx.Graph,
    probes: list[fx.Node],
    changes: list[int],
    order: dict[fx.Node, int],
    *,
    is_new: bool,
) -> None:
    first = probes[0]
    for second in probes[1:]:
        if any(order[first] < at < order[second] for at in changes):
            first = second
        else:
            _fuse(graph, first, second, is_new=is_new)


# The trick is to overestimate twice. First, memory: a node's value may be a view of any of its
# inputs, so each node is put into one set with all its inputs, unless its module is known to make
# something fresh. The sets are small enough, as `Linear`, convolutions and norms end them. Second,
# time: a node that may write into an input may write into everything of that input's set. With the
# places of these writes, a reading may move from one probe to an earlier one if no write lies
# between the two. For values this is all. A gradient is another matter: it is a sum over all uses
# of a tensor, so it is the same at both probes only if the second is the sole use of the first.
# Even then an output may be another name of its call's input, whose other uses count for the output
# and not for the next call's input: between the two, only values that are known to be new qualify.
class _Memory:
    """The sets of nodes whose values may share memory, and the nodes that may write to it.

    Attributes:
        order: The position of each node.
        modules: The modules that the graph calls, by name.
    """

    def __init__(self, graph: fx.Graph, root: nn.Module) -> None:
        self.order = {node: i for i, node in enumerate(graph.nodes)}
        self._shared = UnionFind(graph.nodes)
        self.modules = modules = called_modules(graph, root)
        for node in graph.nodes:
            if node.op != "call_module" or not is_fresh(modules[node.target]):
                self._shared.union(node, *node.all_input_nodes)
        self._changes: dict[fx.Node, list[int]] = defaultdict(list)
        for node, at in self.order.items():
            if may_change_inputs(node, modules):
                for block in {self._shared[source] for source in node.all_input_nodes}:
                    self._changes[block].append(at)

        outside = ("placeholder", "get_attr", "output")
        self._outside = {self._shared[node] for node in graph.nodes if node.op in outside}
        self._returned = {self._shared[node] for node in graph.nodes if node.op == "output"}

    def is_known_outside(self, node: fx.Node) -> bool:
        """True if its value may share memory with tensors from before or after the graph."""
        return self._shared[node] in self._outside

    def is_returned(self, node: fx.Node) -> bool:
        """True if its value may be, or share memory with, the graph's output."""
        return self._shared[node] in self._returned

    def changes_of(self, node: fx.Node) -> list[int]:
        """Positions of the nodes that may write into memory that a node's value shares."""
        return self._changes[self._shared[node]]


def _source(node: fx.Node) -> fx.Node:
    while is_probe(node) and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def _fuse(graph: fx.Graph, first: fx.Node, second: fx.Node, *, is_new: bool) -> None:
    earlier, later = first.target, second.target
    assert isinstance(earlier, Probe)
    assert isinstance(later, Probe)
    sole_use = second.args[0] is first and list(first.users) == [second]
    if not is_new:
        sole_use &= first.meta.get("mark") is second.meta.get("mark")
    moved = [slot for slot in later.slots if _may_move(slot, sole_use)]
    kept = [slot for slot in later.slots if slot not in moved]
    set_slots(graph, first, earlier.__name__, (*earlier.slots, *moved), earlier.board)
    set_slots(graph, second, later.__name__, kept, later.board)


def _move_ends(graph: fx.Graph) -> None:
    """Has the gradient of each input end at the call at whose begin it is begun now."""
    probes = [node for node in graph.nodes if is_probe(node)]
    begun = {node.meta["call"]: node.target.slots for node in probes if node.target.begins}
    for node in probes:
        if node.meta.get("ends"):
            slots = begun.get(node.meta["call"], ())
            node.meta["ends"] = tuple(s for s in slots if s.reading.site.port == "input_grad")
            set_slots(graph, node, node.target.__name__, node.target.slots, node.target.board)


def _may_move(slot: Slot, sole_use: bool) -> bool:
    site = slot.reading.site
    if site.port in ("pair", "call", "span", "backward"):
        return False  # it needs the input of its own call, or stands at one of its ends
    return site.pick is None and (sole_use or site.port in VALUE_PORTS)
