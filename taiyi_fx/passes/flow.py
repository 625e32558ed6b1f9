"""Who feeds whom in forwards that stayed Python: seen in one run, from the autograd graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import networkx as nx
import torch
from torch import nn

from taiyi_fx.passes.clone import clone_tree
from taiyi_fx.passes.contract import IN, OUT, CallNode, Frame, Scope, nodes_of
from taiyi_fx.passes.random_state import random_state, restore_random_state
from taiyi_fx.passes.stand import Stand


class Flow:
    """The data flow that one run of a model showed.

    Attributes:
        inside: By the name and the call of a module whose forward stayed Python, what happened in
            it: a directed graph of `CallNode` and `JoinNode`, from `IN` to `OUT`. An edge says
            that a result was used to compute what the other was given. Forwards within it that
            stayed Python too are followed in the same graph.
        problem: Why nothing is known, if following the run failed.
    """

    def __init__(self) -> None:
        self.inside: dict[tuple[str, int], nx.DiGraph] = {}
        self.problem: Exception | None = None

    def __repr__(self) -> str:
        return f"<data flow inside {len(self.inside)} forwards>"


class Observer:
    """Follows the calls of modules through one forward.

    Args:
        python: Names of the modules whose forwards are followed: those that stayed Python.

    Attributes:
        flow: What was found. If following the calls fails, it says why, and the forward goes on.
    """

    def __init__(self, python: Collection[str]) -> None:
        self.flow = Flow()
        self._python = python
        self._frame: Frame | None = None
        self._scope: Scope = ()
        self._calls: Counter[str] = Counter()

    def begin(
        self, name: str, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Runs a forward that stayed Python and that a graph, or nobody, calls."""
        call = self._count(name)
        frame = Frame((call,))
        self._unless_failed(frame.produce, IN, (args, kwargs))
        value = self._within(frame, (call,), forward, args, kwargs)
        self._unless_failed(frame.consume, OUT, value, (call,))
        if self.flow.problem is None:
            self.flow.inside[call] = frame.graph
        return value

    def around(
        self, name: str, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Runs a forward that model code calls; notes where its inputs came from."""
        frame, call = self._frame, self._count(name)
        if frame is None:  # inside of what is not followed
            return forward(*args, **kwargs)
        if name in self._python:
            scope = (*self._scope, call)
            value = self._within(frame, scope, forward, args, kwargs)
            self._unless_failed(frame.settle, value, scope)
            return value
        node = CallNode(*call, self._scope)
        self._unless_failed(frame.consume, node, (args, kwargs), self._scope)
        given: set[Any] = set()
        # Of now: what the call changes in place has another node afterwards.
        self._unless_failed(lambda: given.update(nodes_of((args, kwargs))))
        value = self._within(None, (), forward, args, kwargs)
        self._unless_failed(frame.produce, node, value, given)
        return value

    def _count(self, name: str) -> tuple[str, int]:
        call = name, self._calls[name]
        self._calls[name] += 1
        return call

    def _within(
        self,
        frame: Frame | None,
        scope: Scope,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        outer = self._frame, self._scope
        self._frame, self._scope = frame, scope
        try:
            return forward(*args, **kwargs)
        finally:
            self._frame, self._scope = outer

    def _unless_failed(self, step: Callable[..., Any], *args: Any) -> None:
        if self.flow.problem is None:
            try:
                step(*args)
            except Exception as error:  # noqa: BLE001 - the diagram lacks edges and says why
                self.flow.problem = error.with_traceback(None)

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


def observe(
    model: nn.Module, python: Collection[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Flow:
    """The data flow of a model on some inputs; leaves its buffers and random states alone.

    Args:
        model: The model.
        python: Names of the modules whose forwards are followed.
        args: Positional arguments.
        kwargs: Keyword arguments.
    """
    model = clone_tree(model, apart=True)
    for module in model.modules():
        if not isinstance(module, torch.jit.ScriptModule):
            own = {k: None if b is None else b.clone() for k, b in module._buffers.items()}
            vars(module)["_buffers"] = own
    observer, drawn = Observer(python), random_state()
    try:
        with torch.enable_grad(), observer.watching(model):
            if "" in python:
                observer.begin("", model, args, kwargs)
            else:
                model(*args, **kwargs)
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
