"""A target's forward between its edits and probes, whatever calls it."""

from __future__ import annotations

import functools
import itertools
import weakref
from typing import Any

import torch
from torch import nn

from taiyi_fx.passes.compiled_taps import CompiledProbes, Steps
from taiyi_fx.passes.fresh import is_fresh
from taiyi_fx.passes.insert_probes import PORTS, before_edit, edit_at, probe_name
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.marks import enter, leave
from taiyi_fx.passes.probe import Probe
from taiyi_fx.passes.run import Calls, Run
from taiyi_fx.passes.slots import Slot, SlotTable
from taiyi_fx.passes.stand import Stand
from taiyi_fx.passes.structure import Call

_ISLANDS: weakref.WeakValueDictionary[str, Island] = weakref.WeakValueDictionary()
_KEYS = itertools.count()
_ProbesOfCall = tuple[Probe | None, Probe | None, Probe | None]


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
