"""The time that the backward of a call takes, node by node of autograd's graph."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._C._autograd import _get_sequence_nr
from torch.autograd.graph import Node

from taiyi_fx.passes.ir import Numbers
from taiyi_fx.reductions.spans import TotalOfCalls, check_is_on_cpu, nodes_of

Take = Callable[[Numbers], None]

_TIMER = "taiyi_fx.timer"


@dataclass(frozen=True)
class BackwardSeconds(TotalOfCalls):
    """Seconds that autograd's nodes of a call take in backward.

    By the clock on the wall, as `ForwardSeconds`.

    Cost: two readings of a clock at each node of the call
    """

    def mark(self) -> int:
        return _get_sequence_nr()

    def watch(self, first: int, last: int, result: Any, take: Take) -> str | None:
        check_is_on_cpu(result)
        is_any = False
        for node in nodes_of(result, range(first, last)):
            _timer_of(node).takers.append(take)
            is_any = True
        return None if is_any else "its call makes nothing that has a backward"


class _NodeTimer:
    """The clock of one node, for all calls within calls that it is part of.

    One for all: with two, the outer would time the inner, too.
    """

    def __init__(self) -> None:
        self.takers: list[Take] = []
        self.begun = 0

    def begin(self, _: Any) -> None:
        if not torch.compiler.is_compiling():  # else a backward pass under compiled autograd
            self.begun = time.perf_counter_ns()

    def end(self, *_: Any) -> None:
        if not torch.compiler.is_compiling():
            seconds = (time.perf_counter_ns() - self.begun) * 1e-9
            for take in self.takers:
                take((seconds,))


def _timer_of(node: Node) -> _NodeTimer:
    # An attribute, which torch's stub declares as a method.
    kept: dict[str, Any] = node.metadata  # pyright: ignore[reportAssignmentType]
    timer = kept.get(_TIMER)
    if timer is None:
        timer = kept[_TIMER] = _NodeTimer()
        node.register_prehook(timer.begin)
        node.register_hook(timer.end)
    return timer
