"""Faults of trainings with several aims or networks: tasks, teachers, domains, alignments."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.asked.small_tasks import begin, perceptron
from benchmarks.faults.training import Training


class TwoTasks(nn.Module):
    """A class and a number from one body."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(perceptron(16, 64, 64), nn.ReLU())
        self.kind, self.number = nn.Linear(64, 5), nn.Linear(64, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of (batch, 5) and numbers of (batch, 1)."""
        x = self.body(x)
        return self.kind(x), self.number(x)


def two_tasks(t: Training, unit: float = 1.0) -> None:
    """Trains a class and a number at once, by the sum of both losses.

    Args:
        t: Is changed.
        unit: Of the numbers.
    """

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        kind, number = model(x)
        loss = F.cross_entropy(kind, y)
        (loss + F.mse_loss(number, unit * x[:, :1] * x[:, 1:2])).backward()
        return loss

    begin(t, TwoTasks(), backward)


@fault("mlp", WHOLE, "number", "kind", kinds="loss|scale|dominat|task|large|gradient|balance")
def number_that_outweighs_the_class(t: Training) -> None:
    """Adds the losses of a class and of a number that is in the hundreds."""
    two_tasks(t, unit=100.0)


class Distilled(nn.Module):
    """A teacher that stays as it is, and a student."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher = perceptron(16, 64, 5).requires_grad_(False)
        self.student = perceptron(16, 32, 32, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of both."""
        return self.student(x), self.teacher(x)


def distilled(t: Training, *, is_logarithm: bool = True, is_student: bool = True) -> None:
    """Trains a student on what a teacher says, and a little on the classes.

    Args:
        t: Is changed.
        is_logarithm: Whether the divergence gets logarithms of probabilities.
        is_student: Whether it compares the student, and not the teacher, with the teacher.
    """

    def backward(model: nn.Module, x: Tensor, _: Tensor) -> Tensor:
        student, teacher = model(x)
        told = (4 * teacher).softmax(1)
        found = student if is_student else 4 * teacher
        found = found.log_softmax(1) if is_logarithm else found.softmax(1)
        loss = F.kl_div(found, told, reduction="batchmean")
        loss = loss + 0.1 * F.cross_entropy(student, told.argmax(1))
        loss.backward()
        return loss

    begin(t, Distilled(), backward, 3e-3)


@fault("mlp", WHOLE, "student*", kinds="loss|negative|plateau|saturat|diverg|slow|softmax")
def divergence_of_probabilities(t: Training) -> None:
    """Passes probabilities to a divergence that takes their logarithms."""
    distilled(t, is_logarithm=False)


@fault("mlp", WHOLE, "student*", kinds="loss|constant|gradient|small|zero|slow|unused|plateau")
def teacher_compared_with_itself(t: Training) -> None:
    """Passes the teacher's logits twice to the loss that is to make the student like it."""
    distilled(t, is_student=False)


class Reversed(torch.autograd.Function):
    """Passes a tensor on, and its gradient with a factor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        """The tensor as it is."""
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """The gradient times the factor."""
        return ctx.factor * gradients[0], None


class Domains(nn.Module):
    """Features for a class, from which the domain is not to be told."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(perceptron(16, 64, 32), nn.ReLU())
        self.kind, self.domain = nn.Linear(32, 5), perceptron(32, 32, 1)

    def forward(self, x: Tensor, factor: float) -> tuple[Tensor, Tensor]:
        """Logits of (batch, 5), and of domains of (batch,)."""
        x = self.body(x)
        reversed_: Any = Reversed.apply(x, factor)
        return self.kind(x), self.domain(reversed_).squeeze(1)


def domains(t: Training, factor: float = -1.0) -> None:
    """Trains features of two domains, one of which is shifted.

    Args:
        t: Is changed.
        factor: Of the gradient that the domain's loss gives the features.
    """

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        domain = (torch.arange(len(x)) % 2).float()
        kind, told = model(x + 2 * domain.unsqueeze(1), factor)
        of_domain = F.binary_cross_entropy_with_logits(told, domain)
        (F.cross_entropy(kind, y) + of_domain).backward()
        return of_domain

    begin(t, Domains(), backward)


@fault("mlp", WHOLE, "domain*", "body*", kinds="sign|domain|loss|reversal|adversar|low|easy")
def gradient_reversed_twice(t: Training) -> None:
    """Reverses the gradient of a domain by a factor that is negative already."""
    domains(t, factor=1.0)


class Aligner(nn.Module):
    """Tells a token, or none, at each of the rows of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(16, 32, batch_first=True), nn.Linear(32, 11)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 16, 11)."""
        return self.head(self.rnn(x)[0])


def alignment(t: Training, length: int = 4) -> None:
    """Trains a recogniser of digits that are beside each other in an image of sixteen columns.

    Args:
        t: Is changed.
        length: How many there are.
    """

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found = model(x).log_softmax(-1).transpose(0, 1)
        tokens = torch.full((len(x),), len(found))
        loss = F.ctc_loss(found, y, tokens, torch.full((len(x),), y.shape[1]))
        loss.backward()
        return loss

    def beside(step: int, x: Tensor, y: Tensor) -> Batch:
        both = torch.cat([x[:32], x[32:]], 3).squeeze(1)
        y = torch.stack([y[:32], y[32:]], 1).repeat(1, length // 2) + 1
        return both.mT.repeat(1, 1, 2), y

    begin(t, Aligner(), backward, 3e-3)
    t.change_batch(beside)


@fault("cnn", WHOLE, "head", kinds="nan|finite|inf|loss|length|align")
def targets_longer_than_rows(t: Training) -> None:
    """Shrinks the rows of an input, and lets targets be longer than what is left."""
    alignment(t, length=20)
