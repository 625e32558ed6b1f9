"""Faults of models that learn what is alike: of distances, temperatures and views."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import set_all
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.asked.small_tasks import begin, perceptron
from benchmarks.faults.training import Training

ALIKE = "loss|collapse|plateau|rank|constant|embedding|contrast|margin"


class Pair(nn.Module):
    """Two towers whose outputs of unit length are compared.

    Args:
        factor: Of the similarities.
    """

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.left, self.right = perceptron(8, 64, 16), perceptron(8, 64, 16)
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        """Similarities of (batch, batch)."""
        left, right = x.chunk(2, -1)
        towers = self.left(left), self.right(right)
        left, right = (F.normalize(tower, dim=-1) for tower in towers)
        return self.factor * left @ right.T


def pairs(t: Training, factor: float = 10.0) -> None:
    """Trains two towers to find the other half of a row among those of a batch.

    Args:
        t: Is changed.
        factor: Of the similarities.
    """

    def backward(model: nn.Module, x: Tensor, _: Tensor) -> Tensor:
        found = model(x)
        loss = F.cross_entropy(found, torch.arange(len(x)))
        loss.backward()
        return loss

    def halves(step: int, x: Tensor, y: Tensor) -> Batch:
        x[:, 8:] = x[:, :8].flip(1) + 0.1 * x[:, 8:]
        return x, y

    begin(t, Pair(factor), backward, 3e-3)
    t.change_batch(halves)


@fault("mlp", WHOLE, kinds="temperature|logit|" + ALIKE)
def similarities_without_a_temperature(t: Training) -> None:
    """Passes cosines to a softmax as they are, between minus one and one."""
    pairs(t, factor=1.0)


Distances = Callable[[Tensor], Tensor]


def distances(x: Tensor) -> Tensor:
    """Those of all pairs of rows, with a little more under the root."""
    return (_squares(x) + 1e-6).sqrt()


def _squares(x: Tensor) -> Tensor:
    lengths = x.square().sum(1)
    return (lengths.unsqueeze(1) + lengths - 2 * x @ x.T).clamp(min=0)


def triplets(
    t: Training, distances: Distances = distances, *, is_hardest: bool = False, rate: float = 1e-3
) -> None:
    """Trains embeddings of digits, of which those of a class are to be nearest.

    Args:
        t: Is changed.
        distances: Of all pairs of embeddings.
        is_hardest: Whether the nearest other class and the furthest of its own count alone.
        rate: The learning rate.
    """

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        far, same = distances(model(x)), y.unsqueeze(1) == y
        if is_hardest:
            positive = far.where(same, 0).max(1).values
            negative = far.where(~same, 1e3).min(1).values
        else:
            positive = (far * same).sum(1) / same.sum(1)
            negative = (far * ~same).sum(1) / (~same).sum(1).clamp(min=1)
        loss = (positive - negative + 0.5).relu().mean()
        loss.backward()
        return loss

    begin(t, nn.Sequential(nn.Flatten(), perceptron(64, 64, 16)), backward, rate)


@fault("cnn", WHOLE, "1.2", kinds="nan|finite|inf|gradient|root|" + ALIKE)
def root_of_distances_that_are_zero(t: Training) -> None:
    """Takes the root of squared distances, of which those to oneself are zero."""
    triplets(t, distances=lambda x: _squares(x).sqrt())


@fault("cnn", WHOLE, "1*", kinds="rate|dead|" + ALIKE)
def hardest_of_all_at_a_large_rate(t: Training) -> None:
    """Trains on the hardest triplets alone, with a rate at which all embeddings become one."""
    triplets(t, is_hardest=True, rate=0.03)


@fault("cnn", WHOLE, "1*", kinds="zero|loss|class|batch|" + ALIKE)
def triplets_of_a_sorted_data_set(t: Training) -> None:
    """Does not shuffle, so that all samples of a batch are of one class."""
    triplets(t)
    t.change_batch(lambda step, x, y: (x, y.fill_(step // 10 % 10)))


def supervised_pairs(t: Training, least: float = 1.0) -> None:
    """Trains embeddings of digits by a softmax over all others of a batch.

    Args:
        t: Is changed.
        least: By how many of its class the sum of a sample is divided at least.
    """

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found = F.normalize(model(x), dim=1)
        own = torch.eye(len(x), dtype=torch.bool)
        logits = (found @ found.T / 0.2).masked_fill(own, -1e9)
        same = (y.unsqueeze(1) == y) & ~own
        sums = (logits.log_softmax(1) * same).sum(1)
        loss = -(sums / same.sum(1).clamp(min=least)).mean()
        loss.backward()
        return loss

    begin(t, nn.Sequential(nn.Flatten(), perceptron(64, 64, 16)), backward)
    t.change_batch(lambda step, x, y: (x[:24], y[:24]))


@fault("cnn", WHOLE, "1*", kinds="nan|finite|inf|loss|zero|division")
def samples_that_are_alone_in_their_class(t: Training) -> None:
    """Divides by how many others of a batch are of the same class, of which there may be none."""
    supervised_pairs(t, least=0.0)


class Views(nn.Module):
    """A network, and a predictor of what it makes of another view."""

    def __init__(self) -> None:
        super().__init__()
        layers = (nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU())
        self.network = nn.Sequential(*layers, nn.Linear(64, 32), nn.BatchNorm1d(32))
        self.predictor = perceptron(32, 16, 32)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What is made of a view, and what is predicted from it."""
        made = self.network(x)
        return made, self.predictor(made)


def views(t: Training, *, is_stopped: bool = True) -> None:
    """Trains a network to make the same of two views of a digit.

    Args:
        t: Is changed.
        is_stopped: Whether what is to be predicted has no gradient.
    """

    def backward(model: nn.Module, x: Tensor, _: Tensor) -> Tensor:
        x = x.flatten(1)
        one, other = (x + 0.5 * torch.randn_like(x) for _ in range(2))
        (made, told), (others, others_told) = model(one), model(other)
        if is_stopped:
            made, others = made.detach(), others.detach()
        alike = F.cosine_similarity(told, others) + F.cosine_similarity(others_told, made)
        loss = 1 - alike.mean() / 2
        loss.backward()
        return loss

    begin(t, Views(), backward)
    set_all(t, lr=3e-3)


@fault("cnn", WHOLE, "network*", "predictor*", kinds="detach|leak|low|" + ALIKE)
def views_that_are_not_detached(t: Training) -> None:
    """Lets gradients into what is to be predicted, so that all views become alike."""
    views(t, is_stopped=False)
