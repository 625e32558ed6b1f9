"""Trainings of pairs of samples, and of teachers and students."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.edits import anew, train_before
from benchmarks.faults.training import Training


def _layers(*widths: int) -> nn.Sequential:
    rows = [nn.Linear(widths[0], widths[1]), nn.ReLU(), nn.Linear(widths[1], widths[2])]
    return nn.Sequential(*rows)


class _Towers(nn.Module):
    """Two towers whose outputs are compared over a temperature."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor, self.left, self.right = factor, _layers(8, 64, 16), _layers(8, 64, 16)

    def forward(self, x: Tensor) -> Tensor:
        """Similarities of (batch, batch)."""
        left, right = x.chunk(2, -1)
        left, right = F.normalize(self.left(left), dim=-1), F.normalize(self.right(right), dim=-1)
        return self.factor * left @ right.T


def _match(t: Training, factor: float, targets: str) -> None:
    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found = model(x)
        pair = {"own": torch.arange(len(x)), "first": torch.zeros(len(x)).long()}[targets]
        loss = F.cross_entropy(found, pair)
        loss.backward()
        return loss

    def halves(step: int, x: Tensor, y: Tensor) -> Batch:
        return torch.cat([x[:, :8], x[:, :8].flip(1) + 0.1 * x[:, 8:]], 1), y

    anew(t, _Towers(factor), backward, 3e-3)
    t.change_batch(halves)


@fault("mlp", WHOLE, "left*", "right*", kinds="plateau|squash")
def similarities_times_their_temperature(t: Training) -> None:
    """Similarities times 0.07, where they should be divided by it."""
    _match(t, 0.07, "own")


@fault("mlp", WHOLE, kinds="plateau")
def pairs_that_are_all_the_first(t: Training) -> None:
    """Targets of zeros where each row's own number was meant."""
    _match(t, 1 / 0.07, "first")


@fault("resnet", WHOLE, "{last}", kinds="non_finite")
def distance_of_a_sample_to_itself(t: Training) -> None:
    """Roots of squared distances of all pairs, of which those of a sample and itself are zero."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        made = model(x)
        apart = (made[:, None] - made).square().sum(-1).sqrt()
        alike = y[:, None] == y
        farthest = (apart * alike).amax(1)
        loss = F.relu(farthest - (apart + 1e9 * alike).amin(1) + 1).mean()
        loss.backward()
        return loss

    t.backward = backward


@fault("mlp-tanh", WHOLE, "{last}", kinds="rank|collapse")
def views_that_nothing_holds_apart(t: Training) -> None:
    """Two views that are to be alike, without a predictor, a stop or other samples: all is one."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = (model(x) - model(x + 0.3 * torch.randn_like(x))).square().mean()
        loss.backward()
        return loss

    t.backward = backward


class _Taught(nn.Module):
    """A student, and a teacher that tells it what to predict."""

    def __init__(self, student: nn.Module, teacher: nn.Module) -> None:
        super().__init__()
        self.student, self.teacher = student, teacher

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of both."""
        return self.student(x), self.teacher(x)


def _teach(t: Training, temperature: float, *, is_frozen: bool, steps: int = 60) -> None:
    """Distils a teacher that was trained for some steps."""
    teacher = copy.deepcopy(t.model)
    student, t.model = t.model, teacher
    t.optimizer = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    train_before(t, steps)
    teacher.requires_grad_(not is_frozen)

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        own, told = (logits / temperature for logits in model(x))
        loss = F.kl_div(own.log_softmax(-1), told.softmax(-1), reduction="batchmean")
        loss.backward()
        return loss

    anew(t, _Taught(student, teacher), backward)


@fault("mlp", WHOLE, "teacher*")
def teacher_that_learns_from_its_student(t: Training) -> None:
    """A teacher that nobody froze: both agree at once on saying nothing."""
    _teach(t, 1.0, is_frozen=False)


@fault("mlp", WHOLE, kinds="small_steps|plateau")
def distilled_at_a_temperature_of_50(t: Training) -> None:
    """A loss that is a 2500th for its temperature, with a rate that knows nothing of it."""
    _teach(t, 50.0, is_frozen=True)
    t.optimizer = torch.optim.SGD(t.model.get_submodule("student").parameters(), lr=0.02)


@fault("mlp", "teacher*")
def average_pushed_away(t: Training) -> None:
    """A teacher that should follow its student's weights, and moves away from them."""
    _teach(t, 1.0, is_frozen=True, steps=20)

    @torch.no_grad()
    def move() -> None:
        own, told = (t.model.get_submodule(n).parameters() for n in ("student", "teacher"))
        for a, b in zip(own, told, strict=True):
            b.add_(0.06 * (b - a))

    t.each_step(move)
