"""A captured graph, and whether running it is, now, the same as running the model's Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.nn.modules import module as torch_module

from taiyi_fx.passes.conditions import MISSING, SIMPLE, Condition
from taiyi_fx.passes.emit import Wrap, emit
from taiyi_fx.passes.flow import Observer
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.override import entry_of
from taiyi_fx.passes.probed_graph import _GRAPHS, Forward, ProbedGraph, Starts, forward_of
from taiyi_fx.passes.run import Calls, Run
from taiyi_fx.passes.slots import SlotTable
from taiyi_fx.passes.specialize import specialize
from taiyi_fx.passes.trace import CapturedGraph

_GLOBAL_HOOKS = (
    torch_module._global_forward_hooks,
    torch_module._global_forward_pre_hooks,
    torch_module._global_backward_hooks,
    torch_module._global_backward_pre_hooks,
)


class GuardedGraph(ProbedGraph):
    """A captured graph, bound to the modules it calls, while it may stand in for their Python.

    Args:
        captured: The graph.
        root: The model.
        table: Where its readings go.
        run: What is due.
        calls: Counters of the targets that are called from elsewhere too.

    Attributes:
        captured: The trace with its conditions.
    """

    def __init__(
        self,
        captured: CapturedGraph,
        root: nn.Module,
        table: SlotTable,
        run: Run,
        calls: Mapping[str, Calls],
    ) -> None:
        self.captured = captured
        part = root.get_submodule(captured.part)
        modules = dict(part.named_modules(remove_duplicate=False))
        called = {str(n.target) for n in captured.graph.nodes if n.op == "call_module"}
        self.modules = {name: modules[name] for name in called}
        forwards = {name: forward_of(module) for name, module in self.modules.items()}
        made = captured.seen.calls.items()
        counted = {name: (calls[name], count) for name, count in made if name in calls}
        super().__init__(captured.graph, part, forwards, table, run, counted)
        self.values, self.answers = _sources(captured.conditions, root)
        inlined = [root.get_submodule(name) for name in captured.seen.inlined]
        containers = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
        parents = [m for m in modules.values() if m._modules or isinstance(m, containers)]
        self.parts = [(m._modules, list(m._modules.values())) for m in parents]
        self.tensors = [(kept, _present(kept)) for m in inlined for kept in _tensors_of(m)]
        every = list(dict.fromkeys([*inlined, *(modules[name] for name in sorted(called))]))
        self.kinds = [(m, type(m)) for m in every]
        self.forwards_of_kinds = [(kind, kind.forward) for kind in {type(m) for m in every}]
        # Whoever has wrapped the part's own forward has called this one.
        self.own = [(m, entry_of(m)) for m in every if m is not part]
        self.hooks = [*_GLOBAL_HOOKS, *(hooks for m in every for hooks in _hooks_of(m))]

    def guards_pass(self) -> bool:
        """Whether running the graph is, now, the same as running the model's Python."""
        for owner, condition in self.values:
            found, value = owner.get(condition.name, MISSING), condition.value
            if found is not value and not _are_equal(found, value):
                return False
        for condition in self.answers:
            found, value = getattr(condition.owner, condition.name, MISSING), condition.value
            if found is not value and not _are_equal(found, value):
                return False
        for parts, expected in self.parts:
            if list(parts.values()) != expected:
                return False
        if any(_present(kept) != expected for kept, expected in self.tensors):
            return False
        if torch.compiler.is_compiling():
            # The compiler itself asks these things while it traces, and not at each call.
            return _ran_the_same(self.key)
        return self.runs_the_same()

    def runs_the_same(self) -> bool:
        """Whether there are no hooks, and each module's forward is what was captured."""
        if any(self.hooks):
            return False
        for module, kind in self.kinds:
            if type(module) is not kind:
                return False
        for kind, forward in self.forwards_of_kinds:
            if kind.forward is not forward:
                return False
        for module, own in self.own:
            if entry_of(module) is not own or vars(module).get("_compiled_call_impl") is not None:
                return False
        return True

    def function(self, mode: Mode | None) -> Forward:
        """The graph as a function that makes the due readings, followed by who observes."""
        observer = self.run.observer
        if observer is None or mode is None or torch.compiler.is_compiling():
            return super().function(mode)
        starts = self.count_calls()
        return observer.unless_failed(self._followed_now, mode, starts) or self.made(
            mode, starts, None
        )

    def _followed_now(self, mode: Mode, starts: Starts) -> Forward:
        assert self.run.observer is not None
        due = specialize(self.probed_graph(mode, starts), self.run.due, self.part)
        return self.followed(self.run.observer, due)

    def followed(self, observer: Observer, graph: fx.Graph) -> Callable[..., Any]:
        """A graph as a function, with an observer told of all calls and of what its nodes make.

        Args:
            observer: What follows the forward under way.
            graph: The captured graph, or what the passes made of it.
        """

        def make(wrap: Wrap, at: Callable[..., Any]) -> Callable[..., Any]:
            forwards = {n: at(self.modules[n], forward) for n, forward in self.forwards.items()}
            return emit(graph, forwards, wrap)

        return observer.through(self.captured, make)


@torch.compiler.assume_constant_result
def _ran_the_same(key: str) -> bool:
    graph = _GRAPHS[key]
    assert isinstance(graph, GuardedGraph)
    return graph.runs_the_same()


def _sources(
    conditions: Iterable[Condition], root: nn.Module
) -> tuple[list[tuple[Mapping[str, Any], Condition]], list[Condition]]:
    """The conditions on what dictionaries hold, with these, and those on what others answer."""
    held, answered = [], []
    for condition in conditions:
        owner = condition.owner
        if isinstance(owner, str):
            held.append((vars(root.get_submodule(owner)), condition))
        elif isinstance(owner, Mapping):
            held.append((owner, condition))
        else:
            # The compiler takes no namespace of a class once it has seen a dictionary change.
            answered.append(condition)
    return held, answered


def _are_equal(found: Any, value: Any) -> bool:
    # Only what is as good as the same: equality of a tensor, or a user's own, is something else.
    return isinstance(value, (*SIMPLE, tuple)) and type(found) is type(value) and found == value


def _tensors_of(module: nn.Module) -> tuple[Any, ...]:
    lists = [m for m in module.children() if isinstance(m, (nn.ParameterList, nn.ParameterDict))]
    return tuple(kept for m in (module, *lists) for kept in (m._parameters, m._buffers))


def _present(kept: Any) -> list[str]:
    return [name for name, tensor in kept.items() if tensor is not None]


def _hooks_of(module: nn.Module) -> tuple[Any, ...]:
    return (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )
