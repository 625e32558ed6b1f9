"""The time that the backward of a call takes, node by node of autograd's graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._C._autograd import _get_sequence_nr
from torch.autograd.graph import Node

from taiyi_fx.passes.ir import Numbers
from taiyi_fx.reductions.device_clock import device_of, moment, seconds_between
from taiyi_fx.reductions.spans import TotalOfCalls, nodes_of

Take = Callable[[Numbers | Callable[[], Numbers]], None]

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
        device = device_of(result)
        is_any = False
        for node in nodes_of(result, range(first, last)):
            _timer_of(node, device).takers.append(take)
            is_any = True
        return None if is_any else "its call makes nothing that has a backward"


class _NodeTimer:
    """The clock of one node, for all calls within calls that it is part of.

    One for all: with two, the outer would time the inner, too.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.takers: list[Take] = []
        self.begun = 0

    def begin(self, _: Any) -> None:
        if not torch.compiler.is_compiling():  # else a backward pass under compiled autograd
            self.begun = moment()

    def end(self, *_: Any) -> None:
        if not torch.compiler.is_compiling():
            seconds = seconds_between(self.begun, moment(), self.device)
            for take in self.takers:
                take(seconds)


def _timer_of(node: Node, device: torch.device) -> _NodeTimer:
    # An attribute, which torch's stub declares as a method.
    kept: dict[str, Any] = node.metadata  # pyright: ignore[reportAssignmentType]
    timer = kept.get(_TIMER)
    if timer is None:
        timer = kept[_TIMER] = _NodeTimer(device)
        node.register_prehook(timer.begin)
        node.register_hook(timer.end)
    return timer
