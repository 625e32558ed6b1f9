"""A captured graph, and whether running it is, now, the same as running the model's Python."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.nn.modules import module as torch_module

from taiyi_fx.passes.conditions import MISSING, SIMPLE, Condition
from taiyi_fx.passes.emit import Wrap, emit
from taiyi_fx.passes.flow import ObservedForward, Observer
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.pipeline import compile_due, probe_graph
from taiyi_fx.passes.run import Calls, Run
from taiyi_fx.passes.slots import Board, SlotTable
from taiyi_fx.passes.specialize import specialize
from taiyi_fx.passes.stand import Stand
from taiyi_fx.passes.trace import CapturedGraph

Starts = tuple[tuple[int, int], ...]
"""Which targets had been called before in the same forward, and how often."""

_STANDINS: weakref.WeakValueDictionary[str, Standin] = weakref.WeakValueDictionary()
_KEYS = itertools.count()
_GLOBAL_HOOKS = (
    torch_module._global_forward_hooks,
    torch_module._global_forward_pre_hooks,
    torch_module._global_backward_hooks,
    torch_module._global_backward_pre_hooks,
)


class Standin:
    """A captured graph, bound to the modules it calls, while it may stand in for their Python.

    Args:
        captured: The graph.
        root: The cloned model.
        table: Where its readings go.
        run: What is due.
        calls: Counters of the targets that are called from elsewhere too.

    Attributes:
        captured: The trace with its conditions.
        part: The module whose forward it stands in for.
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
        self.table = table
        self.run = run
        self.part = root.get_submodule(captured.part)
        self.calls = [(k, calls[k], n) for k, n in captured.seen.calls.items() if k in calls]
        modules = dict(self.part.named_modules(remove_duplicate=False))
        called = {str(n.target) for n in captured.graph.nodes if n.op == "call_module"}
        self.modules = {name: modules[name] for name in called}
        self.forwards = {name: module.forward for name, module in self.modules.items()}
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
        self.own = [(vars(m), vars(m).get("forward")) for m in every if m is not self.part]
        self.hooks = [*_GLOBAL_HOOKS, *(hooks for m in every for hooks in _hooks_of(m))]
        self.probed: dict[tuple[Mode | None, Starts], fx.Graph] = {}
        self.key = f"{next(_KEYS)}"
        _STANDINS[self.key] = self

    def holds(self) -> bool:
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
        for attributes, own in self.own:
            forward = attributes.get("forward")
            if isinstance(forward, ObservedForward):
                forward = forward.before
            if forward is not own and not isinstance(forward, Stand):
                return False
            if attributes.get("_compiled_call_impl") is not None:
                return False
        return True

    def function(self, mode: Mode | None) -> Callable[..., Any]:
        """The graph as a function that makes the due readings; made once for each set.

        Without a mode it makes none: only the edits are in it.
        """
        starts = self._count_calls() if mode else ()
        counts = "_".join(f"{i}x{count}" for i, count in starts)
        place = f"{mode}_{self.run.due_key}_{counts}" if mode else "edited"
        if torch.compiler.is_compiling():
            # This may be traced twice, and has to go the same way both times.
            place = f"{place}_compiled"
            _make_compiled(self.key, mode, starts, place)
        elif not hasattr(self, place):
            self.make_function(mode, starts, place, None)
        made = getattr(self, place)
        observer = self.run.observer
        if observer is None or mode is None:
            return made
        return observer.unless_failed(self._followed_now, observer, mode, starts) or made

    def make_function(
        self, mode: Mode | None, starts: Starts, place: str, board: Board | None
    ) -> None:
        """Makes the function for what is due now an attribute of its own.

        The compiler sees one that was set while it traced, but not a new entry of a dictionary
        that it has read before.
        """
        if not hasattr(self, place):
            graph = self.probed_graph(mode, starts)
            due = self.run.due if mode else frozenset()
            setattr(self, place, compile_due(graph, due, self.part, self.forwards, board))

    def _followed_now(self, observer: Observer, mode: Mode, starts: Starts) -> Callable[..., Any]:
        due = specialize(self.probed_graph(mode, starts), self.run.due, self.part)
        return self.followed(observer, due)

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

    def _count_calls(self) -> Starts:
        """Counts the calls that the graph makes; returns how often targets were called before."""
        starts = []
        for i, (_, calls, made) in enumerate(self.calls):
            if calls.count:
                starts.append((i, calls.count))
            calls.count += made
        return tuple(starts)

    def probed_graph(self, mode: Mode | None, starts: Starts = ()) -> fx.Graph:
        """The graph with a probe for every planned reading, or with its edits alone."""
        if (mode, starts) not in self.probed:
            before = {self.calls[i][0]: count for i, count in starts}
            made = probe_graph(self.captured.graph, self.part, self.table, mode, before)
            self.probed[mode, starts] = made
        return self.probed[mode, starts]


@torch.compiler.assume_constant_result
def _make_compiled(key: str, mode: Mode | None, starts: Starts, place: str) -> bool:
    # With constants only: the compiler runs this once, as ordinary Python, while it traces.
    standin = _STANDINS[key]
    standin.make_function(mode, starts, place, standin.table.board)
    return True


@torch.compiler.assume_constant_result
def _ran_the_same(key: str) -> bool:
    return _STANDINS[key].runs_the_same()


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
