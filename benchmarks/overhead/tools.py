"""The tools: each takes a model and says what to train and what to call after backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

import taiyi_fx
from benchmarks.overhead import with_monitorch
from benchmarks.overhead.hooks import Collector, condition_hooks, norm_hooks
from benchmarks.overhead.work import CONDITION, NORMS, Values, Work


def _nothing(*_: int) -> None:
    """There is nothing to do."""


@dataclass(frozen=True)
class Watched:
    """A model that is watched.

    Attributes:
        model: What is trained.
        end_of_backward: Called with the step's number before the optimizer's step.
        wait: Waits until everything is recorded.
        values: What was recorded at a step, where the tool gives the same numbers.
    """

    model: nn.Module
    end_of_backward: Callable[[int], None] = _nothing
    wait: Callable[[], None] = _nothing
    values: Callable[[int], Values] | None = None


@dataclass(frozen=True)
class Tool:
    """A row of the tables.

    Attributes:
        watch: Puts the tool onto a model.
        base: The row that its time is divided by.
        quantities: What it can do, if not everything.
        is_compiled: Whether torch.compile is at work.
    """

    watch: Callable[[nn.Module, Work], Watched]
    base: str = "plain"
    quantities: tuple[str, ...] | None = None
    is_compiled: bool = False

    def can_do(self, work: Work) -> bool:
        """Whether the tool has the quantities."""
        return self.quantities is None or set(work.quantities) <= set(self.quantities)


def _plain(model: nn.Module, work: Work) -> Watched:
    return Watched(model)


def _hooks(model: nn.Module, work: Work) -> Watched:
    found = Collector(work)
    is_norms = work.quantities == NORMS
    end = norm_hooks(model, found, full=False) if is_norms else condition_hooks(model, found)
    return Watched(model, end, values=found.records.__getitem__)


def _full_hooks(model: nn.Module, work: Work) -> Watched:
    found = Collector(work)
    return Watched(model, norm_hooks(model, found, full=True), values=found.records.__getitem__)


def _monitorch(model: nn.Module, work: Work) -> Watched:
    return Watched(model, with_monitorch.watch(model, work))


def _taiyi_fx(model: nn.Module, work: Work) -> Watched:
    instrumented = taiyi_fx.instrument(model, work.cfg(model), start_step=work.first_step)
    return _of_monitor(instrumented, instrumented.monitor)


def _of_monitor(model: nn.Module, monitor: taiyi_fx.Monitor) -> Watched:
    def values(step: int) -> Values:
        at_step = (r for r in monitor.records if r.step == step)
        return {(r.module, r.quantity): float(r.value) for r in at_step}

    def wait() -> None:
        _ = monitor.records

    return Watched(model, monitor.track, wait, values)


def _compiled(model: nn.Module, work: Work) -> Watched:
    return Watched(torch.compile(model))


def _compiled_taiyi_fx(model: nn.Module, work: Work) -> Watched:
    instrumented = taiyi_fx.instrument(model, work.cfg(model), start_step=work.first_step)
    return _of_monitor(torch.compile(instrumented), instrumented.monitor)


PLAIN, COMPILED = "plain", "torch.compile"

TOOLS = {
    PLAIN: Tool(_plain),
    "plain again": Tool(_plain),
    "hooks by hand": Tool(_hooks, quantities=(*NORMS, *CONDITION)),
    "full backward hooks": Tool(_full_hooks, quantities=NORMS),
    "monitorch": Tool(_monitorch, quantities=NORMS),
    "taiyi_fx": Tool(_taiyi_fx),
    COMPILED: Tool(_compiled, is_compiled=True),
    "torch.compile again": Tool(_compiled, base=COMPILED, is_compiled=True),
    "torch.compile, taiyi_fx": Tool(_compiled_taiyi_fx, base=COMPILED, is_compiled=True),
}


def available(work: Work, asked: list[str] | None = None) -> list[str]:
    """The tools that can do the work, with the rows that theirs are divided by."""
    names = list(TOOLS) if asked is None else asked
    needed = {*names, *(TOOLS[name].base for name in names), PLAIN}
    return [
        name
        for name, tool in TOOLS.items()
        if name in needed
        and tool.can_do(work)
        and (name != "monitorch" or with_monitorch.is_installed())
    ]
