"""Recurrent layers whose states are not those that they should have."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training


@fault("lstm", "{middle}", kinds="detached")
def state_that_is_cut_off_at_each_token(t: Training) -> None:
    """States that are detached within a sequence, so that no gradient reaches the first token."""

    def forward(self, old, ids: Tensor) -> Tensor:
        first, *others = self.words(ids).split(1, dim=1)
        found, states = self.lstm(first)
        for x in others:
            found, states = self.lstm(x, tuple(state.detach() for state in states))
        return self.head(found[:, -1])

    change_class(t.model, forward)


@fault("lstm", "{middle}")
def first_state_of_leftovers(t: Training) -> None:
    """A first state that nobody cleared: what memory held before."""

    def forward(self, old, ids: Tensor) -> Tensor:
        first = 300 * torch.randn(2, 1, len(ids), 32)
        states, _ = self.lstm(self.words(ids), (first[0], first[1]))
        return self.head(states[:, -1])

    change_class(t.model, forward)
