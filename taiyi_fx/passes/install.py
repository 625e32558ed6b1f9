"""Puts probed and edited forwards onto the cloned modules, for a set of due readings."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import nn

from taiyi_fx.passes.clone import clone_tree
from taiyi_fx.passes.compiled_taps import CompiledProbes, Steps
from taiyi_fx.passes.flow import DEEPEST, Flow, Observer
from taiyi_fx.passes.fresh import is_fresh
from taiyi_fx.passes.insert_probes import PORTS, before_edit, edit_at, probe_name
from taiyi_fx.passes.ir import Due, Mode
from taiyi_fx.passes.marks import enter, leave
from taiyi_fx.passes.probe import Probe
from taiyi_fx.passes.run import Calls, Run
from taiyi_fx.passes.slots import Slot, SlotTable
from taiyi_fx.passes.stand import Stand, is_probed
from taiyi_fx.passes.standin import Standin
from taiyi_fx.passes.structure import Call
from taiyi_fx.passes.trace import Capture, CapturedGraph

_ISLANDS: weakref.WeakValueDictionary[str, Island] = weakref.WeakValueDictionary()
_KEYS = itertools.count()
_ProbesOfCall = tuple[Probe | None, Probe | None, Probe | None]

# In evaluation such a layer may compute past its parts, unless it has hooks or this is false.
_SHORTCUT = "activation_relu_or_gelu"


class Island(Stand, Calls):
    """A target's forward between its edits and probes, wherever the call comes from."""

    def __init__(
        self, name: str, module: nn.Module, table: SlotTable, run: Run, probes: CompiledProbes
    ) -> None:
        super().__init__(module)
        self.name = name
        self.compiled_probes = probes
        self._probes: dict[tuple[Mode, int, str], _ProbesOfCall] = {}
        self.table = table
        self.run = run
        self.edit_before = edit_at(enter, name, table, is_fresh=False)
        self.edit_after = edit_at(leave, name, table, is_fresh=is_fresh(module))
        self.key = f"{next(_KEYS)}"
        _ISLANDS[self.key] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.edit_before is not None:
            edited = self.edit_before(Call(args, kwargs))
            args, kwargs = edited.args, edited.kwargs
        mode = self.run.mode_of(self.module)
        if mode is None:
            return self._edited(self.plain(*args, **kwargs))
        call, self.count = self.count, self.count + 1
        if torch.compiler.is_compiling():
            return self._compiled(_steps(self.key, mode, call, self.run.due_key), args, kwargs)
        before, made, after = self.probes_at(mode, call)
        if before is not None:
            passed = before(Call(args, kwargs))
            args, kwargs = passed.args, passed.kwargs
        value = self.plain(*args, **kwargs)
        if made is not None:
            value = made(value, Call(args, kwargs))
        value = self._edited(value)
        if after is None:
            return value
        return after(value, Call(args, kwargs)) if after.needs_given else after(value)

    def _compiled(
        self, steps: tuple[Steps, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        before, made, after = steps
        if before:
            passed = self.compiled_probes(Call(args, kwargs), before)
            args, kwargs = passed.args, passed.kwargs
        value = self.compiled_probes(self.plain(*args, **kwargs), made, Call(args, kwargs))
        return self.compiled_probes(self._edited(value), after, Call(args, kwargs))

    def _edited(self, value: Any) -> Any:
        return value if self.edit_after is None else self.edit_after(value)

    def probes_at(self, mode: Mode, call: int) -> _ProbesOfCall:
        """The probes of what is due now: before a call, of what it made, and after its edits."""
        place = mode, call, self.run.due_key
        if place not in self._probes:
            made, after = [], self._slots(leave, mode, call)
            fresh = left_fresh = is_fresh(self.module)
            if self.edit_after is not None:
                made, after = before_edit(after)
                left_fresh = self.edit_after.leaves_fresh
            before = self._slots(enter, mode, call)
            name = functools.partial(probe_name, module=self.name, call=call)
            self._probes[place] = (
                _probe(name(enter), before, fresh=False),
                _probe(name(leave), made, fresh=fresh),
                _probe(name(leave), after, fresh=left_fresh),
            )
        return self._probes[place]

    def _slots(self, mark: Any, mode: Mode, call: int) -> list[Slot]:
        return [
            slot
            for reading, slot in self.table.at(mode, self.name, call).items()
            if reading.site.port in PORTS[mark] and (self.name, reading) in self.run.due
        ]


def _probe(name: str, slots: list[Slot], *, fresh: bool) -> Probe | None:
    return Probe(name, slots, is_fresh=fresh) if slots else None


@torch.compiler.assume_constant_result
def _steps(key: str, mode: Mode, call: int, due_key: str) -> tuple[Steps, ...]:
    # With constants only: the compiler runs this once, as ordinary Python, while it traces.
    return tuple(p.steps() if p is not None else () for p in _ISLANDS[key].probes_at(mode, call))


class Dispatcher(Stand):
    """A part's forward: a graph where one stands in, else its Python, over islands.

    Attributes:
        standins: The graphs that may stand in.
        sites: Names of the targets that they call.
        edited: Names of those that change what passes, read or not.
        only_here: Names of those that only a graph can change.
        is_rewritten: Whether passes of the user's own made its graphs, which then run at each
            call.
    """

    is_rewritten = False
    edited: frozenset[str] = frozenset()
    only_here: frozenset[str] = frozenset()

    def __init__(
        self, part: nn.Module, standins: list[Standin], run: Run, python: Callable[..., Any]
    ) -> None:
        super().__init__(part)
        self.standins = standins
        self.run = run
        self.python = python
        self.sites = frozenset(name for s in standins for name in s.captured.seen.calls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.probed(self.run.mode_of(self.module), args, kwargs)

    def probed(self, mode: Mode | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The forward with its edits, and in a mode with the due readings made."""
        if mode is None and not self.edited and not self.is_rewritten:
            return self.plain(*args, **kwargs)
        function = self.function(mode)
        if function is None:
            return self.python(*args, **kwargs)
        return function(self.module, *args, **kwargs)

    def function(self, mode: Mode | None) -> Callable[..., Any] | None:
        """The function of the graph that stands in now, if one does.

        Raises:
            RuntimeError: None does, and what passes or an edit do is done nowhere else.
        """
        for standin in self.standins:
            if standin.holds():
                return standin.function(mode)
        if self.is_rewritten:
            part = self.standins[0].captured.part or "the model"
            raise RuntimeError(
                f"what the passes made of {part!r} cannot run: it has changed since it was "
                "traced, or has hooks; instrument it again as it is now"
            )
        if self.only_here:
            names = ", ".join(map(repr, sorted(self.only_here)))
            raise RuntimeError(
                f"the edit of {names} cannot be made: a call of a function is only seen in a "
                "graph, and the model has changed since it was traced; instrument it again"
            )
        return None


class RootDispatcher(Dispatcher):
    """The forward of the whole model: what runs inside it is one forward.

    Attributes:
        table: Where readings go.
        counters: The calls to count from the first again.
        followed: The forwards that stayed Python.
        flow: The data flow of what stayed Python and the shapes of what flows, once seen.
        is_observing: Whether the next forward shows them.
        begin: What is left to do when the first forward begins.
    """

    table: SlotTable
    counters: tuple[Calls, ...] = ()
    followed: Collection[str] = ()
    flow: Flow | None = None
    is_observing = False
    begin: Callable[[], None] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        run = self.run
        mode = run.mode_of(self.module)
        if mode is None:
            # Whatever runs inside is not read either.
            return self._within(None, self._probed, args, kwargs)
        if run.inside:  # the model calls itself
            return self.probed(mode, args, kwargs)
        for counter in self.counters:
            counter.count = 0
        if torch.compiler.is_compiling():
            return self._within(mode, self._probed, args, kwargs)
        if self.begin is not None:
            self.begin, begin = None, self.begin
            begin()
        before = self.table.states()
        try:
            forward = self._observed if self.is_observing else self._probed
            value = self._within(mode, forward, args, kwargs)
        except BaseException:
            self.table.restore(before)  # a forward that failed was none
            raise
        return value

    def _within(
        self,
        mode: Mode | None,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        run = self.run
        outer = run.inside, run.mode
        run.inside, run.mode = True, mode
        try:
            return forward(*args, **kwargs)
        finally:
            run.inside, run.mode = outer

    def _probed(self, *args: Any, **kwargs: Any) -> Any:
        return self.probed(self.run.mode, args, kwargs)

    def _observed(self, *args: Any, **kwargs: Any) -> Any:
        self.is_observing = False
        observer = self.run.observer = Observer(self.module, self.followed)
        try:
            with observer.watching():
                value = observer.around("", self._probed, args, kwargs)
        finally:
            self.run.observer = None
        self.flow = observer.flow
        return value


class Installation:
    """The probed forwards of one instrumented model.

    Attributes:
        root: The cloned model.
        run: What a forward is read as.
        dispatchers: By name, the parts that graphs may stand in for; the root first.
        root_dispatcher: The root's.
        forward: The root's forward as things stand, for one who kept it from when nothing was due.
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
        self._is_rewritten = is_rewritten
        self.table = table
        self.run = Run(record_eval)
        self._own = {m: vars(m).get("forward") for m in root.modules()}
        modules = dict(root.named_modules())
        at_calls = {name for name, target in table.plan.items() if target.is_at_calls}
        self._edited = {name for name, target in table.plan.items() if target.changes}
        probes = CompiledProbes(table.board)
        self._islands = {
            name: Island(name, modules[name], table, self.run, probes)
            for name in sorted(at_calls.intersection(modules))
        }
        self._calls: dict[str, Calls] = dict(self._islands)
        self._calls.update((name, Calls()) for name in capture.functions)
        parts = {"": [], **capture.graphs}
        self.dispatchers = {
            name: self._dispatcher(name, modules[name], graphs, capture)
            for name, graphs in parts.items()
        }
        self.root_dispatcher = cast(RootDispatcher, self.dispatchers[""])
        self.root_dispatcher.table = table
        self.root_dispatcher.followed = capture.python.keys()
        # Following a flow takes frames of Python's stack at each level.
        depth = max(name.count(".") for name in modules)
        self.root_dispatcher.is_observing = depth < DEEPEST
        self.root_dispatcher.begin = self._meet_compiled_parts
        self._frames: list[Stand] = []
        self._compiled: list[Stand] = [self.root_dispatcher]
        self._standing: list[Stand] = []
        self.forward = self.root_dispatcher.plain
        rewritten = {name for name, part in self.dispatchers.items() if part.is_rewritten}
        self._shortcuts = _with_shortcuts(modules, self._edited | rewritten)
        self._stand()

    def _dispatcher(
        self, name: str, part: nn.Module, graphs: list[CapturedGraph], capture: Capture
    ) -> Dispatcher:
        is_alone = not name and capture.is_whole
        calls = {} if is_alone else self._calls
        standins = [Standin(graph, self.root, self.table, self.run, calls) for graph in graphs]
        kind = Dispatcher if name else RootDispatcher
        made = kind(part, standins, self.run, self._islands.get(name, part.forward))
        made.edited = (made.sites | {name}) & self._edited
        made.only_here = made.edited & capture.functions.keys()
        made.is_rewritten = self._is_rewritten and bool(graphs)
        return made

    def set_due(self, due: Due) -> None:
        """Makes exactly these readings from the next forward on.

        With none, all forwards are the model's own again, but for those with edits and for what
        passes of the user's own made.
        """
        if due is self.run.due or due == self.run.due:
            return
        self._take_off()
        self.run.set_due(due)
        self._stand()

    def _take_off(self) -> None:
        for stand in self._standing:
            self._restore(stand.module)
        for module, usual in self._shortcuts.items():
            vars(module)[_SHORTCUT] = usual
        self._standing = []
        self.forward = self.root_dispatcher.plain

    def _stand(self) -> None:
        names = {module for module, _ in self.run.due} | self._edited
        if not names and not self._is_rewritten:
            return
        islands = [island for name, island in self._islands.items() if name in names]
        root, *parts = self.dispatchers.values()
        dispatchers = [
            root,
            *(p for p in parts if p.is_rewritten or not names.isdisjoint(p.sites)),
        ]
        # A graph counts the calls of all its targets, due or not.
        counted = names.union(*(part.sites for part in dispatchers))
        self.root_dispatcher.counters = tuple(c for n, c in self._calls.items() if n in counted)
        # What stands there for another reason is put over a mere frame.
        self._standing = [*self._frames, *islands, *dispatchers]
        for stand in self._compiled:
            stand.take_own_code(self.run.due_key)
        self.forward = self.root_dispatcher
        for stand in self._standing:
            if not self._is_wrapped(stand.module):
                vars(stand.module)["forward"] = stand
        for module in self._shortcuts:
            vars(module)[_SHORTCUT] = 0

    def _is_wrapped(self, module: nn.Module) -> bool:
        """Whether someone has put another forward there since, such as one under autocast.

        That stays. It holds what it found, the stand or the forward of the instrumented model,
        and both know what is due when they are called.
        """
        return not is_probed(module) and vars(module).get("forward") is not self._own[module]

    def _meet_compiled_parts(self) -> None:
        """Gives parts that are compiled one by one frames of their own, of whatever class.

        Such parts run the same code in the plain model, where torch.compile takes one for the
        other. Here each has statistics of its own, and is compiled for itself.
        """
        compiled = _compiled_parts(self.root) & self._own.keys()
        if not compiled:
            return
        self._take_off()
        self._frames = [Stand(module) for module in self._own if module in compiled]
        every = (*self._frames, *self._islands.values(), *self.dispatchers.values())
        self._compiled += [stand for stand in every if stand.module in compiled]
        self._stand()
        self.root_dispatcher.is_observing = False  # what is compiled cannot be followed

    def end_step(self) -> None:
        """Forgets what was read, if anything was, and counts calls from the first again."""
        if self.run.due:
            self.table.clear()
            for calls in self.root_dispatcher.counters:
                calls.count = 0

    @contextmanager
    def removed(self) -> Iterator[nn.Module]:
        """The clone of the model as it was given, without probes while the body runs."""
        self._take_off()
        try:
            yield self.root
        finally:
            self._stand()

    def plain(self) -> nn.Module:
        """A clone of the model as it was given, without probes."""
        with self.removed() as root:
            return clone_tree(root)

    def _restore(self, module: nn.Module) -> None:
        if not is_probed(module):
            return
        own = self._own[module]
        if own is None:
            vars(module).pop("forward", None)
        else:
            vars(module)["forward"] = own


def _compiled_parts(root: nn.Module) -> set[nn.Module | None]:
    """The modules that torch.compile was called with."""
    return {
        module
        for module in root.modules()
        if getattr(module, "_compiled_call_impl", None) is not None
    } | {
        module._modules["_orig_mod"]
        for module in root.modules()
        if "_orig_mod" in module._modules and type(module).__module__.startswith("torch._dynamo")
    }


def _with_shortcuts(
    modules: Mapping[str, nn.Module], edited: Collection[str]
) -> dict[nn.Module, Any]:
    """The layers that may leave out an edited part's call, with what makes them."""
    return {
        module: vars(module)[_SHORTCUT]
        for name, module in modules.items()
        if isinstance(module, nn.TransformerEncoderLayer)
        and _SHORTCUT in vars(module)
        and any(part.startswith(f"{name}." if name else "") for part in edited)
    }
