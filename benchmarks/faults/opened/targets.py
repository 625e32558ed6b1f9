"""Losses that ask for something else than was meant."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training


def _lose(t: Training, loss_of: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Has a function of logits and targets make the loss."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = loss_of(model(x), y)
        loss.backward()
        return loss

    t.backward = backward


@fault("cnn lstm", "{last}", WHOLE, kinds="unbounded_loss|broadcast")
def class_numbers_as_probabilities(t: Training) -> None:
    """A binary cross-entropy of all outputs with the number of the class: it has no end."""

    def loss_of(logits: Tensor, y: Tensor) -> Tensor:
        target = y[:, None].float().expand_as(logits)
        return F.binary_cross_entropy_with_logits(logits, target)

    _lose(t, loss_of)


@fault("mlp", WHOLE)
def weights_that_forget_all_classes_but_one(t: Training) -> None:
    """Weights of classes of which one is 1, and all others are 0."""

    def loss_of(logits: Tensor, y: Tensor) -> Tensor:
        weight = F.one_hot(torch.tensor(1), logits.shape[-1]).float()
        return F.cross_entropy(logits, y, weight)

    _lose(t, loss_of)


@fault("gpt", WHOLE, kinds="plateau")
def targets_with_time_before_samples(t: Training) -> None:
    """Targets of time and samples, flat, for logits of samples and time."""
    _lose(t, lambda z, y: F.cross_entropy(z.flatten(0, 1), y.mT.flatten()))


@fault("gpt", "{last}", WHOLE, kinds="plateau|class_axis")
def logits_viewed_with_classes_first(t: Training) -> None:
    """A view to (samples, classes, tokens) in the place of a transposition."""
    _lose(t, lambda z, y: F.cross_entropy(z.reshape(len(z), 128, -1), y))


@fault("mlp", WHOLE, kinds="divergence|loss_spike|plateau|large_steps")
def gradient_of_one_sample(t: Training) -> None:
    """A loss without reduction, of which the first element alone is followed backward."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        losses = F.cross_entropy(model(x), y, reduction="none")
        losses[0].backward()
        return losses.mean()

    t.backward = backward


@fault("mlp", WHOLE, "{last}", kinds="plateau")
def hinge_of_labels_of_zero_and_one(t: Training) -> None:
    """A margin loss whose labels should be -1 and 1: of a zero nothing is learnt."""
    _lose(t, lambda z, y: F.relu(1 - (y > 1).float() * z[:, 0]).mean())


@fault("mlp", WHOLE, kinds="plateau|copied_targets")
def its_own_guesses_as_labels(t: Training) -> None:
    """Pseudo-labels of all samples from the first step, by a model that knows nothing."""
    _lose(t, lambda z, y: F.cross_entropy(z, z.argmax(1)))


@fault("gpt", WHOLE, kinds="plateau")
def each_text_loses_by_its_first_token(t: Training) -> None:
    """Logits of the first place alone, as a classifier takes them, for the last target."""
    _lose(t, lambda z, y: F.cross_entropy(z[:, 0], y[:, -1]))
