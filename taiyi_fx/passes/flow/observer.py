"""Follows one run of a model: the data flow in forwards that stayed Python, and all shapes."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import networkx as nx
import torch
from torch import fx, nn

from taiyi_fx.passes.capture.captured import CapturedGraph
from taiyi_fx.passes.flow.contract import IN, Argument, CallNode, Frame, Result, Scope, nodes_of
from taiyi_fx.passes.flow.shapes import Shape, Shapes, shapes_in
from taiyi_fx.passes.module_tree import names_in
from taiyi_fx.passes.override import ForwardOverride, forward_of_class
from taiyi_fx.passes.probes.modes import modes_off
from taiyi_fx.passes.rewrite.emit import Wrap

Forward = Callable[..., Any]

DEEPEST = 50
"""The limit of nested calls that are followed: each takes frames of Python's stack."""


class Flow:
    """The data flow that one run of a model showed.

    Attributes:
        inside: The flow in each forward that stayed Python, by the name and the call of its module:
            a directed graph of `CallNode` and `JoinNode`, from `IN` to `OUT`. An edge says that a
            result was used to compute the other's input; its ``passes`` say which result it is,
            and which argument. Forwards within it that stayed Python too are followed in the same
            graph.
        shapes: The shapes of inputs and outputs, by the name and the call of a module.
        nodes: The shapes of each node's inputs and outputs, by the node's name, for each captured
            graph and call of its part.
        problem: The reason why nothing more is known, if following the run failed.
    """

    def __init__(self) -> None:
        self.inside: dict[tuple[str, int], nx.DiGraph] = {}
        self.shapes: dict[tuple[str, int], Shapes] = {}
        self.nodes: dict[tuple[fx.Graph, int], dict[str, Shapes]] = {}
        self.problem: Exception | None = None

    def __repr__(self) -> str:
        return f"<data flow inside {len(self.inside)} forwards>"


class Observer:
    """Follows the calls of modules through one forward.

    Args:
        root: The model.
        python: Names of the modules whose forwards are followed: those that stayed Python.

    Attributes:
        flow: The findings. If following the calls fails, it says why, and the forward goes on.
        names: The names of the model's modules.
        thread: The thread whose calls are followed; 0 when the forward has ended.
    """

    def __init__(self, root: nn.Module, python: Collection[str]) -> None:
        self.flow = Flow()
        self.names = names_in(root)
        self._python = python
        self._frame: Frame | None = None
        self._scope: Scope = ()
        self._calls: Counter[str] = Counter()
        self._depth = 0
        self.thread = get_ident()

    def around(
        self, name: str, forward: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Runs a module's forward; records its shapes, and the sources of its inputs."""
        call = self._count(name)
        if self._depth == DEEPEST:
            self.unless_failed(_refuse_to_go_deeper)
            return forward(*args, **kwargs)
        self._depth += 1
        try:
            run = functools.partial(self._followed, call, forward)
            return self._noted(self.flow.shapes, call, run, args, kwargs)
        finally:
            self._depth -= 1

    def _noted(
        self,
        found: dict[Any, Shapes],
        key: Any,
        function: Forward,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        given = self.unless_failed(shapes_in, (args, kwargs))
        value = function(*args, **kwargs)
        made = self.unless_failed(shapes_in, value)
        if given is not None and made is not None:
            found[key] = Shapes(given, made)
        return value

    def _followed(
        self,
        call: tuple[str, int],
        forward: Forward,
        /,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        frame, is_python = self._frame, call[0] in self._python
        if frame is None:  # called by a graph, from outside, or within a call that is not followed
            return (
                self._begin(call, forward, args, kwargs) if is_python else forward(*args, **kwargs)
            )
        sources, given = self._given_to(frame, args, kwargs)
        if is_python:
            scope = (*self._scope, call)
            value = self._within(frame, scope, forward, args, kwargs)
            if self.unless_failed(frame.has_calls_in, scope):
                self.unless_failed(frame.sources, value, scope)
                return value
        else:
            value = self._within(None, (), forward, args, kwargs)
        self.unless_failed(frame.call, CallNode(*call, self._scope), sources, value, given)
        return value

    def around_function(
        self,
        site: str,
        call: int,
        function: Forward,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Calls a function of a followed forward that is read there, as a node of the flow.

        Args:
            site: The name of its site.
            call: The number of its call there.
            function: The function.
            args: Positional arguments.
            kwargs: Keyword arguments.
        """
        node = CallNode(site, call, self._scope)
        run = functools.partial(self._followed_function, node, function)
        return self._noted(self.flow.shapes, (site, call), run, args, kwargs)

    def _followed_function(
        self, node: CallNode, function: Forward, /, *args: Any, **kwargs: Any
    ) -> Any:
        frame = self._frame
        if frame is None or self.thread != get_ident():
            return function(*args, **kwargs)
        sources, given = self._given_to(frame, args, kwargs)
        value = self._within(None, (), function, args, kwargs)
        self.unless_failed(frame.call, node, sources, value, given)
        return value

    def _given_to(
        self, frame: Frame, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[dict[Result, list[Argument]], set[Any]]:
        """The sources of what a call is given, with the arguments of each, and its autograd nodes.

        Taken before the call: a tensor that it changes in place has another node afterwards.
        """
        sources, given = dict[Result, list[Argument]](), set[Any]()

        def look() -> None:
            for argument, value in (*enumerate(args), *kwargs.items()):
                for source in frame.sources(value, self._scope):
                    sources.setdefault(source, []).append(argument)
            given.update(nodes_of((args, kwargs)))

        self.unless_failed(look)
        return sources, given

    def _begin(
        self,
        call: tuple[str, int],
        forward: Forward,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        frame = Frame((call,))
        self.unless_failed(frame.produce, IN, (args, kwargs))
        value = self._within(frame, (call,), forward, args, kwargs)
        self.unless_failed(frame.end, value, (call,))
        if self.flow.problem is None:
            self.flow.inside[call] = frame.graph
        return value

    def through(
        self,
        captured: CapturedGraph,
        make: Callable[[Wrap, Callable[[nn.Module, Forward], Forward]], Forward],
    ) -> Forward:
        """The function of a part's graph, followed, for the call of the part that is under way.

        Args:
            captured: The graph.
            make: Makes the function, given one that wraps the functions of its nodes, and one that
                makes a module's forward a followed one.
        """
        nodes = self.flow.nodes[captured.graph, self._calls[captured.part] - 1] = {}

        def wrap(node: str, function: Forward) -> Forward:
            return lambda *args, **kwargs: self._noted(nodes, node, function, args, kwargs)

        function = make(wrap, self._at)

        def followed(*args: Any, **kwargs: Any) -> Any:
            value = function(*args, **kwargs)
            for passed in captured.log.inlined_calls if self.flow.problem is None else ():
                shapes = (_made_by(nodes, names) for names in (passed.inputs, passed.outputs))
                self.flow.shapes[self._count(passed.module)] = Shapes(*shapes)
            return value

        return followed

    def _at(self, module: nn.Module, forward: Forward) -> Forward:
        name = self.names[module]
        return lambda *args, **kwargs: self.around(name, forward, args, kwargs)

    def _count(self, name: str) -> tuple[str, int]:
        call = name, self._calls[name]
        self._calls[name] += 1
        return call

    def _within(
        self,
        frame: Frame | None,
        scope: Scope,
        forward: Forward,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        outer = self._frame, self._scope
        self._frame, self._scope = frame, scope
        try:
            return forward(*args, **kwargs)
        finally:
            self._frame, self._scope = outer

    def unless_failed(self, step: Callable[..., Any], *args: Any) -> Any:
        """Runs a step of following, unless one has failed; None where it fails."""
        if self.flow.problem is None:
            try:
                with modes_off(), torch._C.DisableTorchFunctionSubclass():
                    return step(*args)
            except Exception as error:  # noqa: BLE001 - the diagram lacks edges and says why
                self.flow.problem = error.with_traceback(None)
        return None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Overrides the forward of every module below the root while the body runs."""
        observed = [
            ObservedForward(module, name, self)
            for module, name in self.names.items()
            if name and not isinstance(module, torch.jit.ScriptModule)
        ]
        for override in observed:
            override.put()
        try:
            yield
        finally:
            self.thread = 0
            for override in observed:
                override.take_off()


def _refuse_to_go_deeper() -> None:
    raise RecursionError(f"more than {DEEPEST} calls within each other")


def _made_by(nodes: Mapping[str, Shapes], names: tuple[str, ...]) -> tuple[Shape, ...]:
    return tuple(shape for name in names for shape in nodes[name].outputs)


class ObservedForward(ForwardOverride):
    """A forward whose calls are followed."""

    def __init__(self, module: nn.Module, name: str, observer: Observer) -> None:
        super().__init__(module)
        self.name = name
        self.observer = observer

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The forward that stood here before, followed in the thread of the model's."""
        forward = self.original_forward()
        if torch.compiler.is_compiling():  # a function of the model's own, which is one graph
            return forward(*args, **kwargs)
        copied = self.copy_called()
        if copied is not None:
            return forward_of_class(copied)(*args, **kwargs)
        if self.observer.thread != get_ident():
            return forward(*args, **kwargs)
        return self.observer.around(self.name, forward, args, kwargs)
