"""The sources of a forward's tensors: the autograd graph, contracted onto calls of modules."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import networkx as nx
import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge
from torch.multiprocessing.reductions import StorageWeakRef

from taiyi_fx.passes.structure import tensors_in

Scope = tuple[tuple[str, int], ...]
"""The modules that an operation runs in, each with the number of its call, outermost first."""


@dataclass(frozen=True)
class CallNode:
    """A call of a module, or of a function that is read, whose inside is not followed.

    Attributes:
        module: The module's name, or that of the function's site.
        call: The number of the call in one forward, from 0 on.
        scope: The followed forwards that it was called in.
    """

    module: str
    call: int
    scope: Scope


@dataclass(frozen=True)
class JoinNode:
    """An operation between modules that joins the results of several.

    Attributes:
        operation: Its name.
        number: Distinguishes it from others of its name.
        scope: The followed forwards that it ran in, as far as its sources and uses tell.
    """

    operation: str
    number: int
    scope: Scope


Argument = int | str
"""An argument of a call: its position, or its name."""

IN, OUT = "in", "out"
"""The inputs and the outputs of a forward, as nodes of the flow inside it."""


class Frame:
    """A followed forward under way: the source of each of its tensors.

    Attributes:
        graph: The flow inside it, as found so far.
    """

    def __init__(self, scope: Scope) -> None:
        self.graph = nx.DiGraph()
        self._scope = scope
        self._order: dict[Any, int] = {}
        self._add(IN)
        self._add(OUT)
        self._by_node: dict[Any, Any] = {}
        self._by_storage: dict[int, tuple[StorageWeakRef, Any]] = {}

    def produce(self, node: Any, value: Any, given: Collection[Any] = ()) -> None:
        """Records a node as the source of the tensors in a value."""
        for tensor in tensors_in(value):
            if tensor.requires_grad:
                self._own(get_gradient_edge(tensor).node, node, given)
            if tensor.layout == torch.strided:
                # Weakly: following the flow must not keep activations alive.
                held = StorageWeakRef(tensor.untyped_storage())
                self._by_storage[held.cdata] = held, node

    def _own(self, output: Any, node: Any, given: Collection[Any]) -> None:
        """Records that a call made an autograd node, and those between it and the given ones.

        An operation in place on a view skips the view's own node: then its predecessors decide.
        """
        self._by_node[output] = node
        waiting = [] if node == IN or output in given else _behind(output)
        while waiting:
            inner = waiting.pop()
            is_parameter = not inner.next_functions
            if inner not in self._by_node and inner not in given and not is_parameter:
                self._by_node[inner] = node
                waiting += _behind(inner)

    def has_calls_in(self, scope: Scope) -> bool:
        """True if anything of these was called in a followed forward, or in one within it."""
        n = len(scope)
        return any(isinstance(node, CallNode) and node.scope[:n] == scope for node in self.graph)

    def sources(self, value: Any, scope: Scope) -> list[Any]:
        """The sources of the tensors in a value that is used, or returned, in a scope.

        Joins on the way are placed there, so that it has to be asked while the scope is known.
        """
        every = (self._source(tensor, scope) for tensor in tensors_in(value))
        return [source for source in dict.fromkeys(every) if source is not None]

    def call(
        self,
        node: CallNode,
        sources: Mapping[Any, Collection[Argument]],
        value: Any,
        given: Collection[Any],
    ) -> None:
        """Records a call.

        Args:
            node: The call.
            sources: The sources of what it was given, each with the arguments that are of it.
            value: The value that it returned.
            given: The autograd nodes of what it was given.
        """
        self._add(node)
        for source, arguments in sources.items():
            self.graph.add_edge(source, node, arguments=tuple(arguments))
        self.produce(node, value, given)

    def end(self, value: Any, scope: Scope) -> None:
        """Records the sources of what the forward returns."""
        self.graph.add_edges_from((source, OUT) for source in self.sources(value, scope))

    def _source(self, tensor: Tensor, scope: Scope) -> Any:
        if tensor.requires_grad:
            found = self._through_autograd(get_gradient_edge(tensor).node, scope)
            if found is not None:
                return found
        if tensor.layout != torch.strided:
            return None
        storage = tensor.untyped_storage()._cdata
        held, node = self._by_storage.get(storage, (None, None))
        return None if held is None or held.expired() else node

    def _through_autograd(self, start: Any, scope: Scope) -> Any:
        """The source of an autograd node: a call, or a join of several; contracts the rest."""
        waiting = [start]
        while waiting:
            node = waiting[-1]
            unknown = [n for n in _behind(node) if n not in self._by_node]
            if node in self._by_node or not unknown:
                waiting.pop()
                if node not in self._by_node:
                    self._by_node[node] = self._joined(node, scope)
            else:
                waiting += unknown
        return self._by_node[start]

    def _joined(self, node: Any, scope: Scope) -> Any:
        behind = (self._by_node[n] for n in _behind(node))
        sources = list(dict.fromkeys(source for source in behind if source is not None))
        if len(sources) < 2:
            return sources[0] if sources else None
        scopes = [self._scope if source == IN else source.scope for source in sources]
        newest = max(zip(map(self._order.get, sources), scopes, strict=True))[1]
        # An operation is not seen where it runs. It is placed in the innermost of the forwards
        # that hold all that it joins, and those that hold its newest source and its use.
        inner = max(_common(*scopes), _common(newest, scope), key=len)
        join = JoinNode(_operation(node), len(self.graph), inner)
        self._add(join)
        self.graph.add_edges_from((source, join) for source in sources)
        return join

    def _add(self, node: Any) -> None:
        self._order[node] = len(self._order)
        self.graph.add_node(node)


def _common(*scopes: Scope) -> Scope:
    """The longest beginning that several scopes share."""
    same = (levels[0] for levels in zip(*scopes, strict=False) if len(set(levels)) == 1)
    return tuple(same)


def nodes_of(value: Any) -> Iterable[Any]:
    """The autograd nodes of the tensors in a value."""
    return [get_gradient_edge(t).node for t in tensors_in(value) if t.requires_grad]


def _behind(node: Any) -> list[Any]:
    return [following for following, _ in node.next_functions if following is not None]


def _operation(node: Any) -> str:
    """The name of an autograd node's operation: ``AddBackward0`` is ``add``."""
    name = re.sub(r"(Cpu|ForCpu|Cuda|Cudnn)?Backward\d*$", "", node.name())
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
