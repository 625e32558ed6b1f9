"""Recurrent layers whose states are not those that they should have."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.edits import anew
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


@fault("lstm", "{first}", "{middle}", WHOLE, kinds="plateau|input")
def padded_to_sixty_tokens(t: Training) -> None:
    """Sequences padded at their ends, of which the last state is that of padding."""
    t.change_batch(lambda step, ids, y: (F.pad(ids, (0, 52)), y))


@fault("lstm", "{middle}", kinds="weight_jump|loss_spike")
def gates_in_the_order_of_another_library(t: Training) -> None:
    """Weights whose gates are converted to another order at step 50."""

    @torch.no_grad()
    def convert() -> None:
        for parameter in t.module("middle").parameters():
            i, f, g, o = parameter.chunk(4)
            parameter.copy_(torch.cat([o, g, i, f]))

    t.at(50, convert)


@fault("lstm", "{middle}")
def state_and_cell_exchanged(t: Training) -> None:
    """A loop over tokens that hands back the state as the cell, and the cell as the state."""

    def forward(self, old, ids: Tensor) -> Tensor:
        first, *others = self.words(ids).split(1, dim=1)
        found, (state, cell) = self.lstm(first)
        for x in others:
            found, (state, cell) = self.lstm(x, (cell, state))
        return self.head(found[:, -1])

    change_class(t.model, forward)


class _Plain(nn.Module):
    """A recurrent layer with ReLUs whose matrix makes its states larger at each token."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(16, 16)
        self.rnn = nn.RNN(16, 32, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(32, 4)
        nn.init.eye_(self.rnn.get_parameter("weight_hh_l0"))
        self.rnn.get_parameter("weight_hh_l0").data *= 6

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        states, _ = self.rnn(self.words(ids))
        return self.head(states[:, -1])


@fault("lstm", "rnn", kinds="wild_start|growing|large_steps|divergence")
def recurrence_that_grows(t: Training) -> None:
    """An identity times 6 where an identity was meant, over 64 tokens: no number is so large."""
    anew(t, _Plain(), rate=3e-3)
    t.change_batch(lambda step, ids, y: (ids.repeat(1, 8), y))


@fault("lstm", "{middle}")
def state_kept_between_batches(t: Training) -> None:
    """States of samples that have nothing to do with each other, handed on and added up."""
    kept = [torch.zeros(1, 64, 32), torch.zeros(1, 64, 32)]

    def forward(self, old, ids: Tensor) -> Tensor:
        states, (state, cell) = self.lstm(self.words(ids), (kept[0], kept[1]))
        kept[:] = [kept[0] + 3 * state.detach(), kept[1] + 3 * cell.detach()]
        return self.head(states[:, -1])

    change_class(t.model, forward)


@fault("lstm", "{middle}", kinds="dropout|noise")
def memory_dropped_at_each_token(t: Training) -> None:
    """A dropout of nine in ten of the cell, drawn anew between any two tokens."""

    def forward(self, old, ids: Tensor) -> Tensor:
        first, *others = self.words(ids).split(1, dim=1)
        found, (state, cell) = self.lstm(first)
        for x in others:
            found, (state, cell) = self.lstm(x, (state, F.dropout(cell, 0.9)))
        return self.head(found[:, -1])

    change_class(t.model, forward)
