"""Who feeds whom in forwards that stayed Python: seen in one run, from the autograd graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import networkx as nx
import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.multiprocessing.reductions import StorageWeakRef

from taiyi_fx.passes.clone import clone_tree
from taiyi_fx.passes.random_state import random_state, restore_random_state
from taiyi_fx.passes.stand import Stand
from taiyi_fx.passes.structure import tensors_in

Call = tuple[str, int]
"""A module's name and which of its calls in one forward."""

IN, OUT = "in", "out"
"""What a forward is given and what it returns, in the flow inside it."""


class Flow:
    """The data flow that one run of a model showed.

    Attributes:
        inside: By the call of a module, a directed graph of the calls made in its forward, from
            `IN` to `OUT`. An edge says that what the one call returned was used to compute what
            the other was given.
    """

    def __init__(self) -> None:
        self.inside: dict[Call, nx.DiGraph] = {}

    def __repr__(self) -> str:
        return f"<data flow inside {len(self.inside)} forwards>"


class Observer:
    """Follows the calls of modules through one forward.

    Attributes:
        flow: What was found.
        problem: Why nothing was, if following them failed: the forward itself goes on.
    """

    def __init__(self) -> None:
        self.flow = Flow()
        self.problem: Exception | None = None
        self._frames: list[_Frame] = []
        self._calls: Counter[str] = Counter()

    def around(
        self, name: str, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Runs a forward and notes where its inputs came from, and what was called inside."""
        call = name, self._calls[name]
        self._calls[name] += 1
        frame = _Frame()
        self._unless_failed(self._begin, call, frame, args, kwargs)
        self._frames.append(frame)
        try:
            value = forward(*args, **kwargs)
        finally:
            self._frames.pop()
        self._unless_failed(self._end, call, frame, value)
        return value

    def _unless_failed(self, step: Callable[..., None], *args: Any) -> None:
        if self.problem is None:
            try:
                step(*args)
            except Exception as error:  # noqa: BLE001 - only a picture lacks edges, which says why
                self.problem = error.with_traceback(None)
                self.flow = Flow()

    def _begin(self, call: Call, frame: _Frame, args: Any, kwargs: Any) -> None:
        given = list(tensors_in((args, kwargs)))
        # Of now: what the call changes in place has another node afterwards.
        frame.given = {get_gradient_edge(t).node for t in given if t.requires_grad}
        if self._frames:
            self._frames[-1].consume(call, given)
        frame.produce(IN, given)

    def _end(self, call: Call, frame: _Frame, value: Any) -> None:
        made = list(tensors_in(value))
        frame.consume(OUT, made)
        if len(frame.graph) > 2:
            self.flow.inside[call] = frame.graph
        if self._frames:
            self._frames[-1].produce(call, made, frame.given)

    @contextmanager
    def watching(self, root: nn.Module) -> Iterator[None]:
        """Stands at every module below the root while the body runs."""
        own: list[tuple[nn.Module, Any]] = []
        for name, module in root.named_modules():
            if name and not isinstance(module, torch.jit.ScriptModule):
                own.append((module, vars(module).get("forward")))
                vars(module)["forward"] = ObservedForward(module, name, self)
        try:
            yield
        finally:
            for module, forward in own:
                _put_back(module, forward)


def observe(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Flow:
    """The data flow of a model on some inputs; leaves its buffers and random states alone."""
    model = clone_tree(model, apart=True)
    for module in model.modules():
        if not isinstance(module, torch.jit.ScriptModule):
            own = {k: None if b is None else b.clone() for k, b in module._buffers.items()}
            vars(module)["_buffers"] = own
    observer, drawn = Observer(), random_state()
    try:
        with torch.enable_grad(), observer.watching(model):
            observer.around("", model, args, kwargs)
    finally:
        restore_random_state(drawn)
    return observer.flow


def _put_back(module: nn.Module, forward: Any) -> None:
    if isinstance(vars(module).get("forward"), ObservedForward):
        if forward is None:
            del vars(module)["forward"]
        else:
            vars(module)["forward"] = forward


class ObservedForward(Stand):
    """Stands on a module while its calls are followed."""

    def __init__(self, module: nn.Module, name: str, observer: Observer) -> None:
        super().__init__(module)
        self.name = name
        self.observer = observer

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The forward that stood here before, followed."""
        return self.observer.around(self.name, self.plain, args, kwargs)


class _Frame:
    """One forward under way: what made each tensor that is there.

    Attributes:
        given: The autograd nodes of what it was given.
        graph: The flow inside it, as found so far.
    """

    def __init__(self) -> None:
        self.given: set[Any] = set()
        self.graph = nx.DiGraph()
        self.graph.add_nodes_from((IN, OUT))
        self._by_node: dict[Any, Any] = {}
        self._by_storage: dict[int, tuple[StorageWeakRef, Any]] = {}

    def produce(self, call: Any, tensors: Iterable[Tensor], given: Collection[Any] = ()) -> None:
        """Notes that a call made these tensors, from those of the given autograd nodes."""
        for tensor in tensors:
            if tensor.requires_grad:
                self._own(get_gradient_edge(tensor).node, call, given)
            if tensor.layout == torch.strided:
                # Weakly: following the flow must not keep activations alive.
                held = StorageWeakRef(tensor.untyped_storage())
                self._by_storage[held.cdata] = held, call

    def _own(self, output: Any, call: Any, given: Collection[Any]) -> None:
        """Gives a call the node of what it made and those between it and what was given.

        An operation in place on a view leaves out the view's own node: then those behind tell.
        """
        self._by_node[output] = call
        waiting = [] if call == IN or output in given else _behind(output)
        while waiting:
            node = waiting.pop()
            is_parameter = not node.next_functions
            if node not in self._by_node and node not in given and not is_parameter:
                self._by_node[node] = call
                waiting += _behind(node)

    def consume(self, call: Any, tensors: Iterable[Tensor]) -> None:
        """Notes that a call was given these tensors."""
        self.graph.add_node(call)
        for tensor in tensors:
            for producer in self._producers(tensor):
                self.graph.add_edge(producer, call)

    def _producers(self, tensor: Tensor) -> set[Any]:
        found = self._through_autograd(tensor) if tensor.requires_grad else set()
        if found or tensor.layout != torch.strided:
            return found
        storage = tensor.untyped_storage()._cdata
        held, producer = self._by_storage.get(storage, (None, None))
        return set() if held is None or held.expired() else {producer}

    def _through_autograd(self, tensor: Tensor) -> set[Any]:
        """The nearest calls that the tensor was computed from."""
        found, seen = set(), set()
        waiting = [get_gradient_edge(tensor).node]
        while waiting:
            node = waiting.pop()
            if node in self._by_node:
                found.add(self._by_node[node])
            elif node not in seen:
                seen.add(node)
                waiting += _behind(node)
        return found


def _behind(node: Any) -> list[Any]:
    return [following for following, _ in node.next_functions if following is not None]
