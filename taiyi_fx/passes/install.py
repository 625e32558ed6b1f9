"""Puts probed forwards onto the cloned modules for a set of due readings, and takes them off."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from taiyi_fx.passes.clone import clone_tree
from taiyi_fx.passes.insert_probes import PORTS, probe_name
from taiyi_fx.passes.ir import CALL_PORTS, Due, Mode
from taiyi_fx.passes.probe import Probe
from taiyi_fx.passes.run import Run
from taiyi_fx.passes.slots import SlotTable
from taiyi_fx.passes.stand import Stand, is_probed
from taiyi_fx.passes.standin import Standin
from taiyi_fx.passes.structure import Call
from taiyi_fx.passes.trace import CapturedGraph, enter, leave

_ISLANDS: weakref.WeakValueDictionary[int, Island] = weakref.WeakValueDictionary()
_KEYS = itertools.count()


class Island(Stand):
    """A target's forward between its probes, wherever the call comes from.

    Attributes:
        count: Calls since the root's forward began.
    """

    def __init__(self, name: str, module: nn.Module, table: SlotTable, run: Run) -> None:
        super().__init__(module)
        self.name = name
        self.table = table
        self.run = run
        self.count = 0
        self.key = next(_KEYS)
        _ISLANDS[self.key] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        mode = self.run.mode_of(self.module)
        if mode is None:
            return self.plain(*args, **kwargs)
        call, self.count = self.count, self.count + 1
        place = f"{mode}_{call}_{self.run.due_key}"
        _make_probes(self.key, mode, call, place)
        before, after = getattr(self, f"before_{place}"), getattr(self, f"after_{place}")
        if before is not None:
            passed = before(Call(args, kwargs))
            args, kwargs = passed.args, passed.kwargs
        value = self.plain(*args, **kwargs)
        return value if after is None else after(value)

    def make_probes(self, mode: Mode, call: int, place: str) -> None:
        """Makes the probes before and after one call, for what is due now.

        They become attributes of their own: the compiler sees one that was set while it traced,
        but not a new entry of a dictionary that it has read before.
        """
        if not hasattr(self, f"before_{place}"):
            setattr(self, f"before_{place}", self._probe(enter, mode, call))
            setattr(self, f"after_{place}", self._probe(leave, mode, call))

    def _probe(self, mark: Any, mode: Mode, call: int) -> Probe | None:
        slots = [
            slot
            for reading, slot in self.table.at(mode, self.name, call).items()
            if reading.site.port in PORTS[mark] and (self.name, reading) in self.run.due
        ]
        return Probe(probe_name(mark, self.name, call), slots) if slots else None


@torch.compiler.assume_constant_result
def _make_probes(key: int, mode: Mode, call: int, place: str) -> bool:
    # With constants only: the compiler runs this once, as ordinary Python, while it traces.
    _ISLANDS[key].make_probes(mode, call, place)
    return True


class Dispatcher(Stand):
    """The root's forward: a graph where one stands in, else the model's Python over islands."""

    def __init__(
        self, root: nn.Module, standins: list[Standin], run: Run, python: Callable[..., Any]
    ) -> None:
        super().__init__(root)
        self.standins = standins
        self.run = run
        self.python = python
        self.islands: tuple[Island, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        run = self.run
        outer = run.inside, run.mode
        mode = run.mode_of(self.module)
        run.inside, run.mode = True, mode
        try:
            if mode is None:
                return self.plain(*args, **kwargs)
            for island in self.islands:
                island.count = 0
            function = self.standin(mode)
            if function is not None:
                return function(self.module, *args, **kwargs)
            return self.python(*args, **kwargs)
        finally:
            run.inside, run.mode = outer

    def standin(self, mode: Mode) -> Callable[..., Any] | None:
        """The function of the graph that stands in now, if one does."""
        for standin in self.standins:
            if standin.holds():
                if not torch.compiler.is_compiling():
                    return standin.function(mode, self.run)
                return standin.functions.get((self.run.due_key, mode))
        return None


class Installation:
    """The probed forwards of one instrumented model.

    Attributes:
        root: The cloned model.
        run: What a forward is read as.
        standins: The model's graphs, if it has any.
    """

    def __init__(
        self,
        root: nn.Module,
        graphs: list[CapturedGraph],
        table: SlotTable,
        *,
        record_eval: bool = False,
    ) -> None:
        self.root = root
        self.table = table
        self.run = Run(record_eval)
        self.standins = [Standin(graph, root, table) for graph in graphs]
        self._own = {m: vars(m).get("forward") for m in root.modules()}
        modules = dict(root.named_modules())
        self._islands = {
            name: Island(name, modules[name], table, self.run)
            for name, target in table.plan.items()
            if target.at(*CALL_PORTS)
        }
        python = self._islands.get("", root.forward)
        self._dispatcher = Dispatcher(root, self.standins, self.run, python)
        self._standing: list[Stand] = []

    def set_due(self, due: Due) -> None:
        """Makes exactly these readings from the next forward on; none restores all forwards."""
        if due == self.run.due:
            return
        self.run.set_due(due)
        for stand in self._standing:
            self._restore(stand.module)
        self._standing = []
        if due:
            self._stand(due)

    def _stand(self, due: Due) -> None:
        names = {module for module, _ in due}
        islands = [island for name, island in self._islands.items() if name in names]
        self._dispatcher.islands = tuple(islands)
        self._standing = [*(i for i in islands if i.name), self._dispatcher]
        for stand in self._standing:
            vars(stand.module)["forward"] = stand
        # Made ahead, because compiled code can only use what is there when it is traced.
        self._dispatcher.standin("train")

    def end_step(self) -> None:
        """Forgets what was read, if anything was, and counts calls from the first again."""
        if self.run.due:
            self.table.clear()
            for island in self._islands.values():
                island.count = 0

    def plain(self) -> nn.Module:
        """A clone of the model as it was given, without probes."""
        due = self.run.due
        self.set_due(frozenset())
        try:
            return clone_tree(self.root)
        finally:
            self.set_due(due)

    def _restore(self, module: nn.Module) -> None:
        if not is_probed(module):
            return  # someone has put another forward there since
        own = self._own[module]
        if own is None:
            vars(module).pop("forward", None)
        else:
            vars(module)["forward"] = own
