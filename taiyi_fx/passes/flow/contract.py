"""The sources of a forward's tensors: the autograd graph, contracted onto calls of modules."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

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


class Result(NamedTuple):
    """A source of tensors.

    Attributes:
        node: The node of the flow that made them.
        place: The place among the results of a call that returns several; None of any other.
    """

    node: Any
    place: int | None = None


class Pass(NamedTuple):
    """A value on its way from one node of the flow to another.

    Attributes:
        place: The place among the results of the call that made it; None if it has but one, or
            several of them take part.
        argument: The argument that it is there; None of what is joined or returned.
    """

    place: int | None = None
    argument: Argument | None = None


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
        self._by_node: dict[Any, Result | None] = {}
        self._by_storage: dict[int, tuple[StorageWeakRef, Result]] = {}

    def produce(self, node: Any, value: Any, given: Collection[Any] = ()) -> None:
        """Records a node as the source of the tensors in a value."""
        are_several = node != IN and isinstance(value, (tuple, list)) and len(value) > 1
        for place, part in enumerate(value if are_several else (value,)):
            result = Result(node, place if are_several else None)
            for tensor in tensors_in(part):
                if tensor.requires_grad:
                    self._own(get_gradient_edge(tensor).node, result, given)
                if tensor.layout == torch.strided:
                    # Weakly: following the flow must not keep activations alive.
                    held = StorageWeakRef(tensor.untyped_storage())
                    self._by_storage[held.cdata] = held, result

    def _own(self, output: Any, result: Result, given: Collection[Any]) -> None:
        """Records that a call made an autograd node, and those between it and the given ones.

        An operation in place on a view skips the view's own node: then its predecessors decide.
        """
        self._by_node[output] = result
        waiting = [] if result.node == IN or output in given else _behind(output)
        while waiting:
            inner = waiting.pop()
            is_parameter = not inner.next_functions
            if inner not in self._by_node and inner not in given and not is_parameter:
                self._by_node[inner] = result
                waiting += _behind(inner)

    def has_calls_in(self, scope: Scope) -> bool:
        """True if anything of these was called in a followed forward, or in one within it."""
        n = len(scope)
        return any(isinstance(node, CallNode) and node.scope[:n] == scope for node in self.graph)

    def sources(self, value: Any, scope: Scope) -> list[Result]:
        """The sources of the tensors in a value that is used, or returned, in a scope.

        Joins on the way are placed there, so that it has to be asked while the scope is known.
        """
        every = (self._source(tensor, scope) for tensor in tensors_in(value))
        return [source for source in dict.fromkeys(every) if source is not None]

    def call(
        self,
        node: CallNode,
        sources: Mapping[Result, Collection[Argument]],
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
            for argument in arguments:
                self._connect(source, node, argument)
        self.produce(node, value, given)

    def end(self, value: Any, scope: Scope) -> None:
        """Records the sources of what the forward returns."""
        for source in self.sources(value, scope):
            self._connect(source, OUT)

    def _connect(self, source: Result, target: Any, argument: Argument | None = None) -> None:
        if not self.graph.has_edge(source.node, target):
            self.graph.add_edge(source.node, target, passes=[])
        self.graph.edges[source.node, target]["passes"].append(Pass(source.place, argument))

    def _source(self, tensor: Tensor, scope: Scope) -> Result | None:
        if tensor.requires_grad:
            found = self._through_autograd(get_gradient_edge(tensor).node, scope)
            if found is not None:
                return found
        if tensor.layout != torch.strided:
            return None
        storage = tensor.untyped_storage()._cdata
        held, result = self._by_storage.get(storage, (None, None))
        return None if held is None or held.expired() else result

    def _through_autograd(self, start: Any, scope: Scope) -> Result | None:
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

    def _joined(self, node: Any, scope: Scope) -> Result | None:
        behind = (self._by_node[n] for n in _behind(node))
        results = list(dict.fromkeys(source for source in behind if source is not None))
        sources = list(dict.fromkeys(result.node for result in results))
        if len(sources) < 2:
            # Several results of one call are joined without a node of their own.
            return next(iter(results), None) if len(results) < 2 else Result(sources[0])
        scopes = [self._scope if source == IN else source.scope for source in sources]
        newest = max(zip(map(self._order.get, sources), scopes, strict=True))[1]
        # An operation is not seen where it runs. It is placed in the innermost of the forwards
        # that hold all that it joins, and those that hold its newest source and its use.
        inner = max(_common(*scopes), _common(newest, scope), key=len)
        join = JoinNode(_operation(node), len(self.graph), inner)
        self._add(join)
        for result in results:
            self._connect(result, join)
        return Result(join)

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
