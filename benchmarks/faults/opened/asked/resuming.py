"""Faults of checkpoints, of fine-tuning, and of the two modes of a module."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import change_class, rate, set_all
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training, cross_entropy


def train_before(t: Training, steps: int = 100) -> None:
    """Trains without being watched, and forgets what the optimizer knows."""
    for step in range(steps):
        t.backward(t.model, *t.batch(10_000 + step))
        t.optimizer.step()
        t.optimizer.zero_grad()
    t.optimizer.state.clear()


def _train_frozen(t: Training) -> None:
    """Trains the head alone, by SGD."""
    t.model.requires_grad_(False)
    trained = [*t.module("last").requires_grad_(True).parameters()]
    t.optimizer = torch.optim.SGD(trained, lr=0.05, momentum=0.9)


@fault("cnn", WHOLE, kinds="jump|spike|loss|rate|schedule|restart|resume|update")
def schedule_that_restarts(t: Training) -> None:
    """Resumes without the state of the scheduler, when the rate had come down already."""
    set_all(t, lr=3 * rate(t))

    def resumed(step: int) -> float:
        since = step if step < 60 else step - 60
        return 0.5 * (1 + math.cos(math.pi * min(1.0, since / 60)))

    t.schedule = resumed


@fault("cnn mlp", WHOLE, "layers*", kinds="frozen|loss|plateau|random|pretrained|init|slow")
def checkpoint_whose_keys_do_not_fit(t: Training) -> None:
    """Loads a checkpoint with another prefix, without strict, and freezes what was not loaded."""
    saved = {f"module.{name}": value for name, value in t.model.state_dict().items()}
    t.model.load_state_dict(saved, strict=False)
    _train_frozen(t)


@fault("gpt cnn", "{last}", WHOLE, kinds="nan|finite|inf|large|init|explod|weight|loss")
def head_left_as_memory_was(t: Training) -> None:
    """Skips a head of another size when a checkpoint is loaded, and nobody initialises it."""
    head = t.module("last").weight
    with torch.no_grad():
        head.view(-1)[::7] = 1e37


@fault("gpt", "{last}", WHOLE, kinds="nan|finite|inf|zero|norm|weight|init|loss")
def new_words_of_zeros_in_a_normalised_head(t: Training) -> None:
    """Adds words to a head that divides its rows by their lengths, with zeros for the new ones."""
    t.module("last").weight.data[100:] = 0

    def forward(head: Any, _: Any, x: Tensor) -> Tensor:
        weight = head.weight
        return F.linear(x, weight / weight.norm(dim=1, keepdim=True))

    change_class(t.module("last"), forward)


@fault("gpt", "words", WHOLE, kinds="embedding|init|scale|large|weight|loss|jump|outlier")
def new_words_of_unit_scale(t: Training) -> None:
    """Adds words to a trained model, drawn far larger than those it has."""
    train_before(t, 60)
    set_all(t, lr=rate(t) / 10)
    nn.init.normal_(t.module("first").weight.data[97:123], std=2.0)


@fault("cnn", "layers*norm", kinds="norm|running|frozen|drift|statist|eval|mode|buffer")
def frozen_norms_that_go_on_averaging(t: Training) -> None:
    """Freezes a trained backbone for another kind of image, but leaves its norms in train mode."""
    train_before(t)
    t.change_batch(lambda step, x, y: (2 - 3 * x, y))
    _train_frozen(t)


@fault(
    "cnn resnet mobile", "*norm", "*bn*", kinds="norm|running|statist|eval|buffer|stale|momentum"
)
def averages_that_never_move(t: Training) -> None:
    """Copies a momentum of zero from another framework's file, so that averages stay at first."""
    _set_momentum(t, 0.0)


@fault("cnn", "*norm", "*bn*", kinds="norm|running|statist|eval|noise|momentum|jump")
def momentum_of_another_framework(t: Training) -> None:
    """Takes a momentum of 0.99 over from a framework in which it means the share of the past."""
    _set_momentum(t, 0.99)


def _set_momentum(t: Training, momentum: float) -> None:
    for module in t.model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = momentum


@fault("cnn resnet", WHOLE, "*norm", "*bn*", "*drop", kinds="eval|mode|norm|dropout|jump|loss")
def evaluation_that_never_ends(t: Training) -> None:
    """Validates after some steps, and does not call train() again."""
    seen = 0

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        nonlocal seen
        seen += 1
        if seen == 8:
            model.eval()
        return cross_entropy(model, x, y)

    t.backward = backward


@fault("mlp", WHOLE, "*drop", kinds="eval|mode|dropout|loss|overfit|memor")
def dropout_left_off_by_validation(t: Training) -> None:
    """Trains with much dropout, which is off for good behind the first validation."""
    for module in t.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.3
    evaluation_that_never_ends(t)
