"""Writes the graph of one part, and records its guards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Protocol

import torch
from torch import fx, nn

from taiyi_fx.passes.capture.captured import TraceLog, TraceTargets, function_name, site_of
from taiyi_fx.passes.capture.dispatched import as_dispatched
from taiyi_fx.passes.capture.guards import Guards
from taiyi_fx.passes.capture.marks import leave, mark_call, mark_value
from taiyi_fx.passes.capture.scores import is_of_scores
from taiyi_fx.passes.capture.values import Flow, Refused, Value, argument, lifted
from taiyi_fx.passes.ir import Function, FunctionGroup, members_of
from taiyi_fx.passes.module_tree import names_in

_STACK = "nn_module_stack"
_MOST_STEPS = 500_000


LINES = "lines"
"""A node's note of the lines of the model's code that make it: see `_lines`."""


class Located(Protocol):
    """A call of a function, and the line that it is at."""

    function: Any
    line: int


class GraphWriter:
    """The graph of one part as it is written.

    Args:
        part: The part's name.
        module: The part.
        names: The names of all modules in the whole model; of several names, the first.
        targets: The calls that get marks.
        training: The mode that all modules inside are assumed to be in.
        inline: Interprets a call of a function.

    Attributes:
        graph: The graph.
        guards: All that it relies on.
        log: The calls that it holds.
        current: The name of the module whose forward is being interpreted.
        is_silent: True if nothing is written, because a call is only checked.
        frames: The calls of functions that are being interpreted, the outermost first.
    """

    def __init__(
        self,
        part: str,
        module: nn.Module,
        names: Mapping[nn.Module, str],
        targets: TraceTargets,
        *,
        training: bool,
        inline: Callable[..., Value],
    ) -> None:
        self.graph = fx.Graph()
        self.guards = Guards()
        self.log = TraceLog()
        self.names = names
        self._modules = {name: module for module, name in names.items()}
        self.paths = names_in(module)
        self.targets = targets
        self.training = training
        self.current = part
        self.is_silent = False
        self._inline = inline
        self._stack: dict[str, tuple[str, type]] = {}
        self._calls: Counter[str] = Counter()
        self._steps = 0
        self.frames: list[Located] = []

    def inline(self, function: FunctionType, args: Any, kwargs: Any) -> Value:
        """The result of a function's call, whose operations become part of the graph."""
        return self._inline(self, function, args, kwargs)

    def count_step(self) -> None:
        """Refuses a forward that is too long to be a graph."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise Refused("takes too many steps")

    def record(self, op: str, target: Any, args: Any = (), kwargs: Any = None) -> Flow:
        """Writes one operation; puts marks around the call of a function that is a target."""
        given, named = argument(tuple(args)), argument(kwargs or {})
        if self.is_silent:
            return Flow(None)
        if op == "call_function":
            given, named = as_dispatched(target, given, named)
        function, wanted = self._wanted(op, target, given, named)
        marks = [self._site(each) for each in wanted]
        is_in_place = any(a is True for a in given) or named.get("inplace") or "out" in named
        for site, call in marks:
            if is_in_place:
                self.log.in_place.add(site)
            name = function_name(function)
            given, named = mark_call(self.graph, given, named, site, call, name)
        made = self.graph.create_node(op, target, given, named)
        made.meta[LINES] = self._lines()
        value: Any = made
        for site, call in reversed(marks):
            made.meta["site"] = site, call
            value = mark_value(self.graph, leave, value, site, call)
        self.place()
        return lifted(value) if marks else Flow(made)

    def _lines(self) -> tuple[tuple[str, str, int], ...]:
        """The lines that are evaluated now, from the outermost call to the innermost."""
        codes = [(frame.function.__code__, frame.line) for frame in self.frames]
        return tuple((code.co_filename, code.co_name, line) for code, line in codes)

    def _site(self, target: Function | FunctionGroup) -> tuple[str, int]:
        """The site of a target that is called now, and the number of the call there."""
        site = site_of(self.current, target, self.log.functions)
        if site not in self.log.functions:
            self.log.sites.setdefault(self.current, []).append(site)
        self.log.functions[site] = target
        return site, self.count_call(site)

    def place(self) -> None:
        """Sets ``nn_module_stack``, torch.fx's note of the modules that new nodes are in."""
        for node in reversed(self.graph.nodes):
            if _STACK in node.meta:
                break
            node.meta[_STACK] = self._stack

    def read(self, module: nn.Module, name: str) -> Flow:
        """Writes that a module's tensor is read here, anew at each run."""
        path = self.paths[module]
        made = self.record("get_attr", f"{path}.{name}" if path else name)
        return Flow(made.node, is_tensor=True)

    def count_call(self, site: str) -> int:
        """Counts a call of a target; returns the number of earlier ones."""
        call, self.log.calls[site] = self.log.calls[site], self.log.calls[site] + 1
        return call

    def name_of(self, module: nn.Module) -> str:
        """The name of a module of the part.

        Raises:
            Refused: It is not a module of the part.
        """
        if module not in self.paths:
            raise Refused(f"reads a {type(module).__name__} that is not one of its modules")
        return self.names[module]

    @contextmanager
    def inside(self, module: nn.Module, name: str) -> Iterator[None]:
        """In the body, a module's call is interpreted; ``name`` is the one whose forward runs."""
        outer, path = (self.current, self._stack), self.paths[module]
        count, self._calls[path] = self._calls[path], self._calls[path] + 1
        key = f"{path}@{count}" if count else path
        self.current, self._stack = name, {**self._stack, key: (path, type(module))}
        try:
            yield
        finally:
            self.current, self._stack = outer

    @contextmanager
    def silent(self) -> Iterator[None]:
        """In the body, nothing is written."""
        self.is_silent = True
        try:
            yield
        finally:
            self.is_silent = False

    def holds_call(self, module: nn.Module) -> bool:
        """True if a module of torch's own does nothing but a call that belongs to the caller."""
        groups = (t for t in self.targets.functions if isinstance(t, FunctionGroup))
        return any(isinstance(module, group.layers) for group in groups)

    def _wanted(
        self, op: str, target: Any, args: Any, kwargs: Any
    ) -> tuple[Any, list[Function | FunctionGroup]]:
        """The function that a node calls, and the targets that it is one of."""
        if not self.targets.functions or op not in ("call_function", "call_method"):
            return None, []
        found = getattr(torch.Tensor, target, None) if op == "call_method" else target
        return found, [t for t in self.targets.functions if self._is_of(t, found, args, kwargs)]

    def _is_of(self, target: Function | FunctionGroup, found: Any, args: Any, kwargs: Any) -> bool:
        # By identity: a callable may define any equality.
        if any(f is found for f in members_of(target, self._modules[self.current])):
            return True
        is_candidate = isinstance(target, FunctionGroup) and any(
            f is found for f in target.of_scores
        )
        return is_candidate and is_of_scores(args, kwargs)
