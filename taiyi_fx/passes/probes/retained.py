"""Sums of the gradients that several backwards through one forward bring.

A gradient can come again only after a backward that keeps the graph (``retain_graph=True``,
``create_graph=True``). Those of such a backward wait here, so that the next one's are added to
them, as autograd itself adds up ``y.grad``. A sum is complete once a backward comes that does not
keep the graph, and otherwise when the step ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_of_autograd: Any = torch._C  # whose stubs have no such part
keeps_graph: Callable[[], bool] = _of_autograd._autograd._get_current_graph_task_keep_graph
"""True in a backward that keeps the graph, and where none runs."""


class Retained:
    """Gradients of which more may come.

    Attributes:
        sums: The sum so far of each, and who is to take it, by the place that it came from.
        is_needed: True if anything was added in this step or the one before.
    """

    def __init__(self) -> None:
        self.sums: dict[Any, tuple[Any, Tensor]] = {}
        self.is_needed = self._is_used = False
        self._backward = -1
        self._times: Counter[Any] = Counter()

    def total(self, groups: Any, g: Tensor, place: Any = None) -> Tensor | None:
        """The sum of a gradient and those before it, or None while more may come.

        Call in a hook of autograd.

        Args:
            groups: Who is to take the sum.
            g: The gradient.
            place: Says which tensor it is of; None for that of the hook that runs.
        """
        place = self._place(groups) if place is None else place
        if keeps_graph():
            self.add(place, groups, g)
            return None
        if place not in self.sums:
            return g
        self.add(place, groups, g)
        return self.pop(place)

    def add(self, place: Any, groups: Any, g: Tensor) -> None:
        """Adds a gradient; others may change it later."""
        self.is_needed = self._is_used = True
        with torch.no_grad():
            g = g.detach()
            before = self.sums.get(place)
            self.sums[place] = groups, g.clone() if before is None else before[1] + g

    def pop(self, place: Any) -> Tensor:
        """A sum, which is kept no longer."""
        return self.sums.pop(place)[1]

    def take(self) -> list[tuple[Any, Tensor]]:
        """All sums, with those who are to take them; they are kept no longer."""
        found = [*self.sums.values()]
        self.sums.clear()
        return found

    def clear(self) -> None:
        """Drops all sums, at the end of a step."""
        self.sums.clear()
        self._times.clear()
        self.is_needed, self._is_used = self._is_used, False

    def _place(self, groups: Any) -> tuple[Any, int, int]:
        # A node has one object of Python as long as something refers to that. Two calls that return
        # one tensor hang two hooks on its node: each has a sum of its own.
        running = torch._C._current_graph_task_id()
        if running != self._backward:
            self._backward = running
            self._times.clear()
        hook = torch._C._current_autograd_node(), id(groups)
        self._times[hook] += 1
        return *hook, self._times[hook]
