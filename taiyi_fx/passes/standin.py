"""A captured graph, and whether running it is, now, the same as running the model's Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx, nn
from torch.nn.modules import module as torch_module

from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.pipeline import compile_due, probe_graph
from taiyi_fx.passes.run import Run
from taiyi_fx.passes.slots import SlotTable
from taiyi_fx.passes.source_scan import MISSING
from taiyi_fx.passes.stand import Stand
from taiyi_fx.passes.trace import CapturedGraph

_GLOBAL_HOOKS = (
    torch_module._global_forward_hooks,
    torch_module._global_forward_pre_hooks,
    torch_module._global_backward_hooks,
    torch_module._global_backward_pre_hooks,
)


class Standin:
    """A captured graph, bound to the modules it calls, while it may stand in for their Python.

    Attributes:
        captured: The trace with its conditions.
    """

    def __init__(self, captured: CapturedGraph, root: nn.Module, table: SlotTable) -> None:
        self.captured = captured
        self.root = root
        self.table = table
        modules = dict(root.named_modules(remove_duplicate=False))
        called = {str(n.target) for n in captured.graph.nodes if n.op == "call_module"}
        self.forwards = {name: modules[name].forward for name in called}
        self.values = [(vars(modules[m]), attr, value) for m, attr, value in captured.conditions]
        parents = [m for m in modules.values() if m._modules]
        self.parts = [(m._modules, list(m._modules.values())) for m in parents]
        inlined = [modules[name] for name in captured.inlined]
        self.tensors = [(kept, _present(kept)) for m in inlined for kept in _tensors_of(m)]
        self.called = [modules[name] for name in sorted(called.union(captured.inlined))]
        self.own = [(m, type(m), vars(m).get("forward")) for m in self.called]
        self.probed: dict[Mode, fx.Graph] = {}
        self.functions: dict[tuple[str, Mode], Callable[..., Any]] = {}

    def holds(self) -> bool:
        """Whether running the graph is, now, the same as running the model's Python."""
        for owner, attr, value in self.values:
            found = owner.get(attr, MISSING)
            if found is not value and (type(found) is not type(value) or found != value):
                return False
        for parts, expected in self.parts:
            if list(parts.values()) != expected:
                return False
        if any(_present(kept) != expected for kept, expected in self.tensors):
            return False
        if any(_GLOBAL_HOOKS) or not all(_is_as_it_was(*forward) for forward in self.own):
            return False
        return not any(map(_has_hooks, self.called))

    def function(self, mode: Mode, run: Run) -> Callable[..., Any]:
        """The graph as a function that makes the due readings; made once for each set."""
        key = run.due_key, mode
        if key not in self.functions:
            self.functions[key] = compile_due(self.probed_graph(mode), run.due, self.forwards)
        return self.functions[key]

    def probed_graph(self, mode: Mode) -> fx.Graph:
        """The graph with a probe for every planned reading."""
        if mode not in self.probed:
            graph = self.captured.graph
            self.probed[mode] = probe_graph(graph, self.root, self.table, mode)
        return self.probed[mode]


def _tensors_of(module: nn.Module) -> tuple[Any, ...]:
    lists = [m for m in module.children() if isinstance(m, (nn.ParameterList, nn.ParameterDict))]
    return tuple(kept for m in (module, *lists) for kept in (m._parameters, m._buffers))


def _present(kept: Any) -> list[str]:
    return [name for name, tensor in kept.items() if tensor is not None]


def _is_as_it_was(module: nn.Module, kind: type, own: Any) -> bool:
    """Whether a module's forward is the one that was captured, or a probed one around it."""
    forward = vars(module).get("forward")
    return type(module) is kind and (forward is own or isinstance(forward, Stand))


def _has_hooks(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or module._compiled_call_impl is not None
    )
