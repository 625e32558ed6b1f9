"""Model to graphs: symbolic traces that are the model, as large as they can be."""

from __future__ import annotations

import inspect
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

import torch
from torch import fx, nn

from taiyi_fx.passes.clone import clone_tree
from taiyi_fx.passes.conditions import Condition
from taiyi_fx.passes.factories import recorded_factories
from taiyi_fx.passes.faithful import Unfaithful, Watch, is_users
from taiyi_fx.passes.marks import mark_root
from taiyi_fx.passes.tracer import (
    MarkingTracer,
    Seen,
    Wanted,
    is_torch_composite,
    refuse_special,
)

# Names that generated code has for itself, which a parameter of the same name would hide.
_TAKEN_NAMES = frozenset(
    "torch device inf nan NoneType fx_pytree pytree taiyi_fx slice getattr "
    "operator typing self".split()
)


@dataclass(frozen=True)
class CapturedGraph:
    """A graph that stands in for the forward of a part while its conditions hold.

    Attributes:
        part: The part's name; the nodes of its graph name modules and parameters from there.
        graph: The trace, with `enter` and `leave` marks around each call of a target.
        conditions: What the traced forwards relied on.
        seen: What the trace came across.
    """

    part: str
    graph: fx.Graph
    conditions: tuple[Condition, ...]
    seen: Seen


@dataclass
class Capture:
    """What became of a model.

    Attributes:
        graphs: Graphs by the name of the module whose forward they stand in for: one, or where
            evaluation is read too and goes another way, two. A model that is one graph has them
            at ``""``.
        python: Modules whose forward stayed Python, by name, and why.
        functions: The functions that were asked for, by the name of each site that calls one.
        in_place: Sites of those that are told to change an input, or to write into another.
    """

    graphs: dict[str, list[CapturedGraph]] = field(default_factory=dict)
    python: dict[str, str] = field(default_factory=dict)
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    in_place: set[str] = field(default_factory=set)

    @property
    def is_whole(self) -> bool:
        """Whether the model is one graph."""
        return not self.python

    def __str__(self) -> str:
        if self.is_whole:
            return "one graph"
        held = {name for graphs in self.graphs.values() for g in graphs for name in g.seen.inlined}
        many = "1 graph" if len(self.graphs) == 1 else f"{len(self.graphs)} graphs"
        forwards = "1 forward" if len(held) == 1 else f"{len(held)} forwards"
        head = f"{many} of {forwards}" if self.graphs else "no graph"
        by_reason: dict[str, list[str]] = {}
        for name, why in self.python.items():
            by_reason.setdefault(why, []).append(name or "the model itself")
        kept = "\n".join(f"  {_listed(names)}: {why}" for why, names in by_reason.items())
        return f"{head}; Python stays in\n{kept}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 4 else ""
    return ", ".join(names[: 3 if more else 4]) + more


def trace(model: nn.Module, wanted: Wanted) -> Capture:
    """Traces a model with torch.fx: the whole of it, or the largest parts that can be graphs.

    A forward that no graph can stand in for stays Python, and its parts are traced on their own.
    The model is left as it was: tracing runs on clones, with random states restored. One thread
    traces at a time.
    """
    capture = Capture()
    with _ALONE:
        _Parts(model, wanted, capture).trace("")
    return capture


_ALONE = threading.RLock()  # while torch.fx traces, its patches hold in all threads


class _Parts:
    """Traces parts of one model; what is found to stay Python in one is known in the next."""

    def __init__(self, model: nn.Module, wanted: Wanted, capture: Capture) -> None:
        self.model = model
        self.wanted = wanted
        self.capture = capture
        self.modules = dict(model.named_modules())
        self.own_names = {module: name for name, module in self.modules.items()}
        self.python = _inside_torch(self.modules, wanted)
        self.scratch: nn.Module | None = None
        self.names: dict[nn.Module, str] = {}

    def trace(self, part: str) -> None:
        """Traces a part; if it stays Python, its parts in turn."""
        graphs = [] if part in self.python else self._graphs(part)
        if graphs:
            self.capture.graphs[part] = graphs
            for captured in graphs:
                self.capture.functions.update(captured.seen.functions)
                self.capture.in_place |= captured.seen.in_place
            kept = [name for captured in graphs for name in self._kept(captured)]
        else:
            kept = [part]
        for name in dict.fromkeys(kept):
            if name not in self.capture.python:
                self.capture.python[name] = self.python[name]
                for child in self._traceable_below(name):
                    self.trace(child)

    def _kept(self, captured: CapturedGraph) -> Iterator[str]:
        for node in captured.graph.nodes:
            if node.op == "call_module":
                path = _joined(captured.part, str(node.target))
                name = self.own_names[self.model.get_submodule(path)]
                if name in self.python:
                    yield name

    def _traceable_below(self, name: str) -> Iterator[str]:
        """The parts that can be traced on their own: those that hold others and are called."""
        for key, child in self.modules[name].named_children():
            path = _joined(name, key)
            if path not in self.modules or not self._is_composite(child):
                continue
            if isinstance(child, (nn.ModuleList, nn.ModuleDict)):
                yield from self._traceable_below(path)
            elif not is_torch_composite(child) or path in self.python:
                yield path

    def _is_composite(self, module: nn.Module) -> bool:
        is_own = not type(module).__module__.startswith("torch.")
        return next(module.children(), None) is not None or (is_own and bool(self.wanted.functions))

    def _graphs(self, part: str) -> list[CapturedGraph]:
        while part not in self.python:
            try:
                return self._trace_modes(part)
            except _Stays as stays:
                new = self._alike(stays.refusals, part)
                if new.keys() <= self.python.keys():
                    # Refused for what a part does that stays Python already: then the whole does.
                    new = {part: next(iter(new.values()))}
                self.python.update(new)
        return []

    def _alike(self, refusals: list[Unfaithful], part: str) -> dict[str, str]:
        """The refused modules and all others of their classes, which would be refused in turn."""
        found: dict[str, str] = {}
        for refusal in refusals:
            # A forward is judged when it returns, after what it called: the last reason says most.
            found[refusal.module] = refusal.reason
        by_class = {type(self.modules[name]): why for name, why in found.items()}
        for name, module in self.modules.items():
            if name and type(module) in by_class:
                found.setdefault(name, by_class[type(module)])
        return found

    def _trace_modes(self, part: str) -> list[CapturedGraph]:
        train = self._trace_once(part, training=True)
        follows_mode = any(condition.name == "training" for condition in train.conditions)
        is_evaluated = self.wanted.evaluation or not all(
            self.modules[name].training for name in train.seen.inlined
        )
        if follows_mode and is_evaluated:
            return [train, self._trace_once(part, training=False)]
        return [train]

    def _trace_once(self, part: str, *, training: bool) -> CapturedGraph:
        if self.scratch is None:
            self.scratch = clone_tree(self.model, apart=True)
            self.names = {m: name for name, m in self.scratch.named_modules()}
        module = self.scratch.get_submodule(part)
        for inside in module.modules():
            if not isinstance(inside, torch.jit.ScriptModule):  # shared with the model
                vars(inside)["training"] = training
        names = {m: self.names[m] for m in module.modules()}
        tracer = MarkingTracer(part, names, self.wanted, self.python)
        watch = tracer.watch = Watch(names, tracer.seen.inlined, lambda: tracer.current)
        try:
            refuse_special(module, part)
            with watch.watching(), recorded_factories():
                graph = tracer.trace(module)
        except Exception as error:  # Whatever the forward does with a proxy, it stays Python.
            if watch.has_changed:
                self.scratch = None
            failed = error if isinstance(error, Unfaithful) else _untraceable(tracer, error)
            raise _Stays(watch.refusals or [failed]) from error
        for node in graph.nodes:
            node.type = None  # of no use to us, and some annotations cannot be written as code
        taken = [n.target for n in graph.find_nodes(op="placeholder") if n.target in _TAKEN_NAMES]
        if taken:
            raise _Stays([Unfaithful(part, f"has a parameter named {taken[0]!r}")])
        code = inspect.unwrap(type(module).forward).__code__
        if code.co_kwonlyargcount and code.co_flags & inspect.CO_VARARGS:
            raise _Stays([Unfaithful(part, "takes keywords behind any number of arguments")])
        if part in self.wanted.modules:
            tracer.seen.calls[part] += 1
            mark_root(graph, part)
        return CapturedGraph(part, graph, tuple(watch.conditions.values()), tracer.seen)


class _Stays(Exception):
    def __init__(self, refusals: list[Unfaithful]) -> None:
        super().__init__(*refusals)
        self.refusals = refusals


def _inside_torch(modules: dict[str, nn.Module], wanted: Wanted) -> dict[str, str]:
    return {
        name: f"{type(module).__name__} is torch's own and calls its parts itself"
        for name, module in modules.items()
        if is_torch_composite(module)
        and (not name or any(t.startswith(f"{name}.") for t in wanted.modules))
    }


def _untraceable(tracer: MarkingTracer, error: Exception) -> Unfaithful:
    message = (str(error).strip().splitlines() or [type(error).__name__])[0]
    said = (words for text, words in _IN_WORDS.items() if text in message)
    reason = _of_torch(error, message) or next(said, f"cannot be traced: {message}")
    return Unfaithful(tracer.deepest, f"{reason}{_place(error)}")


def _of_torch(error: Exception, message: str) -> str | None:
    """What is so where a function of torch refused a proxy, which it says as if of the model."""
    name = message.partition("(")[0]
    if not isinstance(error, TypeError) or not isinstance(
        getattr(torch, name, None), BuiltinFunctionType
    ):
        return None
    return f"calls torch's {name} on what flows in, in a way that cannot be traced"


_IN_WORDS = {
    "cannot be used as inputs to control flow": "branches on a tensor's data or shape",
    "object cannot be iterated": "iterates over a tensor, or over something of an unknown length",
    "'len' is not supported": "asks for the length of a tensor",
    "does not support item assignment": "assigns to a part of a tensor",
    "InPlaceProxy": "hands what flows in to a call that cannot be traced",
    "InPlaceAttribute": "hands what flows in to a call that cannot be traced",
}


def _place(error: Exception) -> str:
    """The last line of the model's own code that an error came through."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    own = [(f.f_code.co_filename, f.f_lineno) for f in frames if is_users(f.f_code.co_filename)]
    return f" ({Path(own[-1][0]).name}:{own[-1][1]})" if own else ""


def _joined(part: str, name: str) -> str:
    return f"{part}.{name}" if part and name else part or name
