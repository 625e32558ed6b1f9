"""Losses whose inputs are squashed, cut off, or weighed without bounds."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training


def _lose(t: Training, loss_of: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Has a function of logits and targets make the loss."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = loss_of(model(x), y)
        loss.backward()
        return loss

    t.backward = backward


def _ones(logits: Tensor, y: Tensor) -> Tensor:
    return F.one_hot(y, logits.shape[-1]).float()


@fault("mlp cnn", "{last}", WHOLE, kinds="squash")
def sigmoid_before_a_loss_that_has_one(t: Training) -> None:
    """Probabilities that are taken for logits of a binary cross-entropy."""
    _lose(t, lambda z, y: F.binary_cross_entropy_with_logits(z.sigmoid(), _ones(z, y)))


@fault("mlp-tanh lstm", "{last}", WHOLE, kinds="squash|plateau")
def sigmoid_before_cross_entropy(t: Training) -> None:
    """Outputs between 0 and 1, of which a softmax makes next to nothing."""
    _lose(t, lambda z, y: F.cross_entropy(z.sigmoid(), y))


@fault("cnn lstm", "{last}", WHOLE, kinds="wild_loss|large_steps|divergence|loss_spike")
def positives_that_weigh_ten_thousand(t: Training) -> None:
    """A weight of positives that was meant to even out rare ones."""

    def loss_of(logits: Tensor, y: Tensor) -> Tensor:
        weight = torch.tensor(1e4)
        return F.binary_cross_entropy_with_logits(logits, _ones(logits, y), pos_weight=weight)

    _lose(t, loss_of)


@fault("cnn lstm", WHOLE, kinds="divergence|loss_spike|plateau|wild_loss|large_steps")
def focus_on_what_is_known(t: Training) -> None:
    """A focal loss whose exponent has the wrong sign: sure samples weigh without end."""

    def loss_of(logits: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(logits, y, reduction="none")
        return ((1 - (-loss).exp()).clamp(min=1e-6) ** -2 * loss).mean()

    _lose(t, loss_of)


@fault("mlp", "{last}", WHOLE, kinds="non_finite|overflow")
def softmax_by_hand(t: Training) -> None:
    """Exponentials of logits over a temperature, of which the largest was not taken off."""

    def loss_of(logits: Tensor, y: Tensor) -> Tensor:
        shares = (logits / 0.02).exp()
        shares = shares / shares.sum(-1, keepdim=True)
        return -shares.gather(1, y[:, None]).clamp(min=1e-8).log().mean()

    _lose(t, loss_of)


@fault("cnn", "{last}", WHOLE, kinds="squash|plateau")
def cosines_without_a_scale(t: Training) -> None:
    """Logits that are cosines, between -1 and 1, as they are."""

    def forward(self, old, x: Tensor) -> Tensor:
        return F.linear(F.normalize(x, dim=-1), F.normalize(self.weight, dim=-1))

    change_class(t.module("last"), forward)


@fault("mlp", "{last}", WHOLE, kinds="non_finite")
def root_of_an_error_of_zero(t: Training) -> None:
    """A root of squares that are all masked in some rows from step 30: its slope is infinite."""
    now = [0]
    t.before_step.append(lambda step: now.__setitem__(0, step))

    def loss_of(logits: Tensor, y: Tensor) -> Tensor:
        mask = torch.ones(len(logits), 1)
        mask[: 3 * (now[0] >= 30)] = 0
        return (mask * (logits - _ones(logits, y))).square().sum(1).sqrt().mean()

    _lose(t, loss_of)


@fault("cnn", "{last}", WHOLE, kinds="non_finite|zero_gradient")
def logits_cut_off_below_every_probability(t: Training) -> None:
    """Logits that were clamped to between 0 and 1e-7, as probabilities are to be safe."""
    _lose(t, lambda z, y: F.cross_entropy(z.clamp(0, 1e-7), y))
