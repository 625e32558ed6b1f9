"""Faults of recurrent layers: their states, their axes, their ends, and their activations."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.asked.small_tasks import begin, trained_by
from benchmarks.faults.training import Training


@fault("lstm", "lstm", WHOLE, kinds="state|recurrent|loss|noise|carry|plateau|saturat|slow")
def state_of_other_sequences(t: Training) -> None:
    """Begins each batch with the state that the one before left, though all is shuffled."""

    def forward(model: Any, _: Any, ids: Tensor) -> Tensor:
        states, left = model.lstm(model.words(ids), model.left)
        model.left = tuple(state.detach() for state in left)
        return model.head(states[:, -1])

    model: Any = t.model
    model.left = None
    change_class(model, forward)


@fault("lstm", "lstm", WHOLE, kinds="batch|axis|time|sample|mix|loss|plateau|recurrent")
def time_first_by_default(t: Training) -> None:
    """Makes a recurrent layer without batch_first, and feeds it samples first."""
    t.module("middle").batch_first = False


@fault("lstm", "lstm", WHOLE, kinds="pad|vanish|forget|time|recurrent|loss|plateau|gradient")
def state_behind_the_padding(t: Training) -> None:
    """Pads sequences to the longest of the data, and classifies by the state at the very end."""

    def pad(step: int, ids: Tensor, y: Tensor) -> Batch:
        return torch.cat([ids, ids.new_zeros(len(ids), 72)], 1), y

    t.change_batch(pad)


class Doubled(nn.Module):
    """Two recurrent layers with ReLUs and a number that is behind a ReLU, too."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(4, 32, 2, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(32, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Numbers of (batch, 1), none of them negative."""
        states, _ = self.rnn(x)
        return self.head(states[:, -1]).relu()


@fault("mlp", WHOLE, "rnn", "head", kinds="dead|relu|zero|explod|loss|plateau|moment|nan|finite")
def relus_and_momentum_of_99(t: Training) -> None:
    """Has ReLUs in recurrent layers and behind the number, and a momentum of 0.99."""

    def sums(step: int, x: Tensor, _: Tensor) -> Batch:
        return x.view(len(x), 4, 4).repeat(1, 4, 1), x.abs().sum(1, keepdim=True)

    begin(t, Doubled(), trained_by(F.mse_loss))
    t.optimizer = torch.optim.SGD(t.model.parameters(), lr=0.01, momentum=0.99)
    t.change_batch(sums)
