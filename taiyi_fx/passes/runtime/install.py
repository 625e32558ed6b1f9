"""Chooses the forwards to override for a set of due readings, and installs the overrides."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from torch import fx, nn

from taiyi_fx.passes.capture.captured import Capture, CapturedGraph, TraceTargets
from taiyi_fx.passes.capture.lookup import in_class
from taiyi_fx.passes.capture.trace import trace
from taiyi_fx.passes.ir import Due
from taiyi_fx.passes.module_tree import modules_of, named_modules
from taiyi_fx.passes.override import (
    ForwardOverride,
    entry_of,
    put_all,
    shown_by,
    take_off_all,
)
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.runtime.dispatch import Dispatcher
from taiyi_fx.passes.runtime.function_calls import FunctionCalls
from taiyi_fx.passes.runtime.guarded_graph import GuardedGraph
from taiyi_fx.passes.runtime.probed_graph import own_call
from taiyi_fx.passes.runtime.run import Calls, Run

# In evaluation such a layer may bypass its parts, unless it has hooks or this is false.
_SHORTCUT = "activation_relu_or_gelu"
_KEYS = itertools.count()

INSTALLATIONS: weakref.WeakValueDictionary[str, Installation] = weakref.WeakValueDictionary()
"""By their keys, which are constants in compiled code."""


class Installation:
    """The overridden forwards of one instrumented model.

    Attributes:
        root: The model.
        table: The slots that its probes fold into.
        run: The state of the forward under way, with the due readings.
        key: Its name in compiled code.
        dispatchers: The overrides that may be installed, by module; the root's first.
        overrides: The overrides that are installed while a forward runs, for the due readings.
        is_always: True if some are needed in every forward, even if nothing is due.
    """

    def __init__(
        self,
        root: nn.Module,
        capture: Capture,
        table: SlotTable,
        *,
        record_eval: bool = False,
        is_rewritten: bool = False,
    ) -> None:
        self.root = root
        self.table = table
        self.run = Run(record_eval)
        self.key = f"{next(_KEYS)}"
        self._is_rewritten = is_rewritten
        self._modules = dict(named_modules(root))
        self._own_of_root = entry_of(root)
        self._edited = {name for name, target in table.plan.items() if target.changes}
        at_calls = {name for name, target in table.plan.items() if target.is_at_calls}
        targets = sorted(at_calls.intersection(self._modules))
        self._calls = {name: Calls() for name in (*targets, *capture.functions)}
        names = dict.fromkeys(("", *targets, *capture.graphs, *capture.sites))
        self.dispatchers = {
            name: self._dispatcher(name, capture, is_target=name in targets) for name in names
        }
        whole = capture.graphs.get("", []) if capture.is_whole else []
        if whole and all(set(targets) <= graph.log.calls.keys() for graph in whole):
            self.dispatchers[""].before_python = self._put_parts
        rewritten = {name for name, part in self.dispatchers.items() if part.is_rewritten}
        self.is_always = bool(self._edited or rewritten)
        self._shortcuts = _with_shortcuts(self._modules, self._edited | rewritten)
        self._counters: tuple[Calls, ...] = ()
        self._frames: list[ForwardOverride] = []
        self._root: list[ForwardOverride] = [self.dispatchers[""]]
        self._compiled_overrides = [*self._root]
        self._is_put = self._stays = self._leaves_regions = False
        self._in_regions = _in_regions(self._modules.values())
        self.overrides: list[ForwardOverride] = []
        # By the due readings: schedules bring the same ones again and again.
        self._chosen: dict[Due, tuple[list[ForwardOverride], tuple[Calls, ...]]] = {}
        INSTALLATIONS[self.key] = self
        self._choose()

    def _dispatcher(self, name: str, capture: Capture, *, is_target: bool) -> Dispatcher:
        module = self._modules[name]
        made = Dispatcher(module, self.run, self.table.board)
        graphs: list[CapturedGraph] = capture.graphs.get(name, [])
        calls = {} if not name and capture.is_whole else self._calls
        for graph in graphs:
            made.graphs.append(GuardedGraph(graph, self.root, self.table, self.run, calls))
        if is_target:
            counter = self._calls[name]
            made.own_call = own_call(
                name, module, made.original_forward, self.table, self.run, counter
            )
            made.sites |= {name}
        made.functions = self._functions_of(name, capture)
        made.sites |= made.functions.sites if made.functions else frozenset()
        made.sites |= {site for graph in graphs for site in graph.log.calls}
        made.edited = made.sites & self._edited
        made.is_rewritten = self._is_rewritten and bool(graphs)
        return made

    def _functions_of(self, name: str, capture: Capture) -> FunctionCalls | None:
        sites = {s: capture.functions[s] for s in capture.sites.get(name, ())}
        if not sites:
            return None
        return FunctionCalls(self._modules[name], sites, self.table, self.run, self._calls)

    def capture_evaluation(self) -> GuardedGraph | None:
        """The graph of the whole model in evaluation, whose forwards are not read."""
        targets = TraceTargets(self._modules.keys() & self.table.plan, evaluation=True)
        graphs = trace(self.root, targets).graphs.get("", ())
        made = [GuardedGraph(g, self.root, self.table, self.run, {}) for g in graphs]
        return made[-1] if made else None

    def rewrite_root(self, captured: GuardedGraph, graph: fx.Graph) -> None:
        """Replaces a captured graph of the whole model, from the next call on.

        In the other mode the model refuses to run until its graph is rewritten, too.
        """
        root = self.dispatchers[""]
        captured.rewrite(graph)
        edited = [g for g in root.graphs if g.is_edited and g is not captured]
        root.graphs = [*edited, captured]
        root.is_rewritten = self.is_always = self._is_rewritten = True
        self._take_off_parts()
        self._chosen.clear()
        self._choose()
        if self._stays:
            self._put_parts()

    def set_due(self, due: Due) -> None:
        """Makes exactly these readings from the next forward on.

        With none, all forwards are the model's own again, except those with edits and those that
        the user's own passes rewrote.
        """
        if due is self.run.due or due == self.run.due:
            return
        self._take_off_parts()
        self.run.set_due(due)
        self._choose()
        if self._stays:
            self._put_parts()

    def _choose(self) -> None:
        """Chooses the overrides for the due readings."""
        for override in self._compiled_overrides:
            override.take_own_code(self.run.due_key)
        if self.run.due not in self._chosen:
            self._chosen[self.run.due] = self._found()
        self.overrides, self._counters = self._chosen[self.run.due]

    def _found(self) -> tuple[list[ForwardOverride], tuple[Calls, ...]]:
        """The overrides for the due readings, and the counters that they count with."""
        names = {module for module, _ in self.run.due} | self._edited
        if not names and not self._is_rewritten:
            return [], ()
        root, *parts = self.dispatchers.values()
        chosen = [p for p in parts if p.is_rewritten or not names.isdisjoint(p.sites)]
        # A graph counts the calls of all its targets, due or not.
        counted = names.union(root.sites, *(part.sites for part in chosen))
        counters = tuple(c for n, c in self._calls.items() if n in counted)
        modules = {id(override.module) for override in (root, *chosen)}
        frames = [
            f for f in self._frames if id(f.module) not in modules and _holds(f.module, modules)
        ]
        return [root, *chosen, *frames], counters

    def put(self, *, needs_parts: bool = True, is_compiled: bool = False) -> None:
        """Installs the chosen overrides; calls are counted from the first again.

        Where the model's graph calls all of them, those of parts only once its Python runs.
        """
        are_compiled = len(self._compiled_overrides) > len(self._root)  # parts, one by one
        self._leaves_regions = is_compiled or are_compiled or self._stays
        for calls in self._counters:
            calls.count = 0
        # A wrapper put around the model's own meanwhile, such as autocast's, still calls this one.
        own = entry_of(self.root)
        if own is self._own_of_root:
            put_all(self.overrides[:1])
        if self.is_always or needs_parts or not (own is None and self._is_called_as_usual()):
            self._put_parts()

    def _is_called_as_usual(self) -> bool:
        """True if a call of the model runs only a forward that installs overrides of parts."""
        root = self.root
        return (
            self.dispatchers[""].before_python is not None
            and type(root).__call__ is nn.Module.__call__
            and not (root._forward_pre_hooks or root._forward_hooks)
        )

    def take_off(self) -> None:
        """Restores the forwards; edited ones stay, for checkpoints that backward runs again."""
        take_off_all(self._root)
        if self._is_put and not (self._stays or self.is_always):
            self._take_off_parts()

    def stand_for_good(self) -> None:
        """Leaves overrides of parts installed while due, for compiled code that guards on them."""
        self._stays = self._leaves_regions = True
        self._put_parts()

    def _put_parts(self) -> None:
        if self._is_put:
            return
        self._is_put = True
        put_all(self._outside_regions() if self._in_regions else self.overrides[1:])
        for module, _ in self._shortcuts:
            vars(module)[_SHORTCUT] = 0

    def _outside_regions(self) -> list[ForwardOverride]:
        """The chosen overrides of parts, in compiled code without those that only read in a region.

        The compiler compares what it finds there with the region's code of the block before.
        """
        parts, board = self.overrides[1:], self.table.board
        board.in_regions.clear()
        if not self._leaves_regions:
            return parts
        left = [
            part
            for part in self.dispatchers.values()
            if id(part.module) in self._in_regions and not part.changes_values
        ]
        board.in_regions.update(*(part.sites for part in left))
        modules = {id(part.module) for part in left}
        return [part for part in parts if id(part.module) not in modules]

    def _take_off_parts(self) -> None:
        if not self._is_put:
            return
        self._is_put = False
        take_off_all(self.overrides[1:])
        for module, usual in self._shortcuts:
            vars(module)[_SHORTCUT] = usual

    def close(self) -> None:
        """Restores the model, except calls that edits or passes have to change."""
        self._stays = False
        self._take_off_parts()
        # Those that code of the model has kept and put back itself.
        every = self.dispatchers.values()
        take_off_all([part for part in every if vars(part.module).get("forward") is part])

    def count_anew(self) -> None:
        """Counts calls from the first again."""
        for calls in self._counters:
            calls.count = 0

    def meet_compiled_parts(self) -> bool:
        """Gives parts that are compiled one by one frames of their own, even if of one class.

        In the plain model such parts run the same code, and torch.compile shares it between them.
        Here each that is read has statistics of its own, and is compiled separately.

        Returns:
            True if there are any.
        """
        modules = set(self._modules.values())
        compiled = [m for m in _compiled_parts(self.root) if m in modules]
        if not compiled:
            return False
        every = {override.module: override for override in self.dispatchers.values()}
        self._frames = [
            Dispatcher(m, self.run, self.table.board) for m in compiled if m not in every
        ]
        self._compiled_overrides += [*self._frames, *(every[m] for m in compiled if m in every)]
        self._chosen.clear()
        self._choose()
        return True

    def end_step(self) -> None:
        """Clears the readings, if there are any, and counts calls from the first again."""
        self.run.made.clear()
        if self._is_put and not self._stays:
            self._take_off_parts()
        if self.run.due:
            self.table.clear()
            self.count_anew()


def _in_regions(modules: Iterable[nn.Module]) -> set[int]:
    """The identities of parts of modules that torch compiles once for all of one class.

    `torch.compiler.nested_compile_region` marks their forward.
    """
    forwards = ((m, entry_of(m) or in_class(type(m), "forward")) for m in modules)
    marked = [m for m, forward in forwards if shown_by(forward, "__marked_compile_region_fn__")]
    return {id(part) for module in marked for part in modules_of(module) if part is not module}


def _holds(part: nn.Module, modules: Collection[int]) -> bool:
    """True if a module or one of its parts is among these, which are named by identity."""
    return any(id(module) in modules for module in modules_of(part))


def _compiled_parts(root: nn.Module) -> list[nn.Module]:
    """The modules that torch.compile was called with, in the model's order."""
    found: dict[int, Any] = {}
    for module in modules_of(root):
        if getattr(module, "_compiled_call_impl", None) is not None:
            found[id(module)] = module
        if "_orig_mod" in module._modules and type(module).__module__.startswith("torch._dynamo"):
            inner = module._modules["_orig_mod"]
            found[id(inner)] = inner
    return list(found.values())


def _with_shortcuts(
    modules: Mapping[str, nn.Module], edited: Collection[str]
) -> list[tuple[nn.Module, Any]]:
    """The layers that may bypass an edited part's call, with their switch for that."""
    return [
        (module, vars(module)[_SHORTCUT])
        for name, module in modules.items()
        if isinstance(module, nn.TransformerEncoderLayer)
        and _SHORTCUT in vars(module)
        and any(part.startswith(f"{name}." if name else "") for part in edited)
    ]
