"""Puts probed and edited forwards onto the cloned modules, for a set of due readings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from torch import nn

from taiyi_fx.passes.capture.captured import Capture, CapturedGraph
from taiyi_fx.passes.clone import clone_tree
from taiyi_fx.passes.compiled_taps import CompiledProbes
from taiyi_fx.passes.dispatch import Dispatcher, RootDispatcher
from taiyi_fx.passes.flow import DEEPEST
from taiyi_fx.passes.ir import Due
from taiyi_fx.passes.island import Island
from taiyi_fx.passes.run import Calls, Run
from taiyi_fx.passes.slots import SlotTable
from taiyi_fx.passes.stand import Stand, is_probed
from taiyi_fx.passes.standin import Standin

# In evaluation such a layer may compute past its parts, unless it has hooks or this is false.
_SHORTCUT = "activation_relu_or_gelu"


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
