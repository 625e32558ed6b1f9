"""Model to graphs, each as large as possible, from the code of the forwards alone."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

from torch import fx, nn

from taiyi_fx.passes.capture.captured import Capture, CapturedGraph, TraceTargets
from taiyi_fx.passes.capture.function_sites import add_sites_in_python
from taiyi_fx.passes.capture.graph_writer import GraphWriter
from taiyi_fx.passes.capture.interpreter import defaults_of, inline, interpret
from taiyi_fx.passes.capture.marks import mark_root
from taiyi_fx.passes.capture.modules import is_torch_composite, plain_forward
from taiyi_fx.passes.capture.values import Flow, Known, Refused, Value, argument, is_simple
from taiyi_fx.passes.module_tree import (
    has_children,
    modules_of,
    named_children,
    named_modules,
    names_in,
)
from taiyi_fx.passes.stack_limit import narrow, widen

# Names that generated code uses itself, which a parameter of the same name would hide.
_TAKEN_NAMES = frozenset(
    "torch device inf nan NoneType fx_pytree pytree taiyi_fx slice getattr operator typing self "
    "math int float len abs round min max".split()
)


def trace(model: nn.Module, targets: TraceTargets) -> Capture:
    """The whole model as one graph, or the largest parts that can be graphs.

    A forward that no graph can stand in for stays Python, and its parts are tried on their own.
    Nothing of the model is run.
    """
    capture = Capture()
    parts = _Parts(model, targets, capture)
    widen()
    try:
        parts.trace("")
    finally:
        narrow()
    add_sites_in_python(capture, parts.modules, targets.functions)
    return capture


class _Parts:
    """Captures parts of one model."""

    def __init__(self, model: nn.Module, targets: TraceTargets, capture: Capture) -> None:
        self.targets = targets
        self.capture = capture
        self.modules = dict(named_modules(model))
        self.names = names_in(model)
        self.dotted = [
            f"{name}.{key}".removeprefix(".")
            for name, module in self.modules.items()
            for key, _ in module._modules.items()  # a script module's have no other way
            if "." in key
        ]

    def trace(self, part: str) -> None:
        """Captures a part; if it stays Python, its parts in turn."""
        if part in self.capture.python:
            return
        try:
            graphs = self._graphs(part)
        except Refused as refused:
            self.capture.python[part] = str(refused)
            for child in self._traceable_below(part):
                self.trace(child)
            return
        self.capture.graphs[part] = graphs
        for captured in graphs:
            self.capture.functions.update(captured.log.functions)
            self.capture.sites.update(captured.log.sites)
            self.capture.in_place |= captured.log.in_place

    def _traceable_below(self, name: str) -> Iterator[str]:
        """The parts that can be graphs on their own: those that hold others and are called."""
        for key, child in named_children(self.modules[name]):
            path = f"{name}.{key}" if name else key
            if path not in self.modules or not self._is_composite(child):
                continue
            if isinstance(child, (nn.ModuleList, nn.ModuleDict)) and not _is_called(child):
                yield from self._traceable_below(path)
            elif not is_torch_composite(child) or self._holds_target(path, child):
                yield path

    def _is_composite(self, module: nn.Module) -> bool:
        is_own = not type(module).__module__.startswith("torch.")
        return has_children(module) or (is_own and bool(self.targets.functions))

    def _holds_target(self, name: str, module: nn.Module) -> bool:
        if any(map(self.targets.hides, modules_of(module))):
            return True
        return any(target.startswith(f"{name}.") for target in self.targets.modules)

    def _graphs(self, part: str) -> list[CapturedGraph]:
        train = self._captured(part, training=True)
        modules = [self.modules[name] for name in train.guards.modules]
        follows_mode = any(guard.name == "training" for guard in train.guards)
        is_evaluated = self.targets.evaluation or not all(m.training for m in modules)
        if follows_mode and is_evaluated:
            return [train, self._captured(part, training=False)]
        return [train]

    def _captured(self, part: str, *, training: bool) -> CapturedGraph:
        module = self.modules[part]
        for dotted in self.dotted:
            if f"{dotted}.".startswith(f"{part}." if part else "") or part.startswith(f"{dotted}."):
                raise Refused(f"is or has a part with a dot in its name, {dotted!r}")
        writer = GraphWriter(
            part, module, self.names, self.targets, training=training, inline=inline
        )
        try:
            _write(writer, part, module)
        except RecursionError as error:
            raise Refused("calls itself too deeply") from error
        except Refused:
            raise
        except Exception as error:
            # A case that our rules do not foresee must not fail a model.
            raise Refused.because_of(error) from error
        if part in self.targets.modules:
            writer.log.calls[part] += 1
            mark_root(writer.graph, part)
        return CapturedGraph(part, writer.graph, writer.guards, writer.log)


def _is_called(module: nn.Module) -> bool:
    return type(module).forward is not nn.Module.forward


def _write(writer: GraphWriter, part: str, module: nn.Module) -> None:
    """Writes a module's forward as a graph for any inputs."""
    if is_torch_composite(module):
        kind = type(module).__name__
        raise Refused(f"{kind} is torch's own and calls its parts itself")
    forward = plain_forward(writer, module)
    writer.log.inlined.append(part)
    inputs = _inputs(writer, module, forward)
    writer.place()
    value = interpret(writer, forward, inputs)
    writer.graph.output(_with_calls(writer.graph, argument(value)))


def _with_calls(graph: fx.Graph, value: Any) -> Any:
    """An output whose named tuples are calls of their classes.

    In arguments torch.fx writes them so by itself; in outputs its earlier versions write a class's
    bare name, which the code doesn't know.
    """
    if isinstance(value, dict):
        return {key: _with_calls(graph, part) for key, part in value.items()}
    if not isinstance(value, (list, tuple)):
        return value
    parts = [_with_calls(graph, part) for part in value]
    if hasattr(value, "_fields"):
        return graph.call_function(type(value), tuple(parts))
    return type(value)(parts)


def _inputs(writer: GraphWriter, module: nn.Module, forward: FunctionType) -> dict[str, Value]:
    """Placeholders for the parameters of a forward, with defaults."""
    code, defaults = forward.__code__, defaults_of(forward)
    names, star, stars = inspect.getargs(code)
    if not code.co_argcount:
        raise Refused(f"is wrapped by `{code.co_name}`, which takes any number of arguments")
    if code.co_kwonlyargcount and star:
        raise Refused("takes keyword arguments after any number of positional ones")
    first, *others = names
    required = [name not in defaults for name in others]
    # A graph has no keyword-only parameters, which alone may have no default behind one that has.
    can_be_written = required == sorted(required, reverse=True)
    inputs = {name: _input(writer, name, defaults, can_be_written) for name in others}
    for sign, name in (("*", star), ("**", stars)):
        if name is not None:
            inputs[name] = Flow(writer.graph.placeholder(f"{sign}{name}"))
    return {first: Known(module), **inputs}


def _input(
    writer: GraphWriter, name: str, defaults: Mapping[str, Any], can_be_written: bool
) -> Flow:
    if name in _TAKEN_NAMES:
        raise Refused(f"has a parameter named {name!r}")
    if name in defaults and not is_simple(defaults[name]):
        raise Refused(f"has a default that it may change, {name!r}")
    if name not in defaults or not can_be_written:
        return Flow(writer.graph.placeholder(name))
    return Flow(writer.graph.placeholder(name, default_value=argument(Known(defaults[name]))))
