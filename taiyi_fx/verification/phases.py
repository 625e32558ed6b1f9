"""The results of each phase of training and evaluation of a model on one batch."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from taiyi_fx.passes.runtime.random_state import random_state, restore_random_state
from taiyi_fx.snapshot.bitwise import kept, leaves, strides
from taiyi_fx.snapshot.state import State
from taiyi_fx.verification.batch import Batch, Loss, loss_of

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


@dataclass(frozen=True)
class Task:
    """The steps that a model is run through.

    Attributes:
        batch: The arguments of each step.
        loss: A scalar of its output, or None for the default.
        steps: The number of training steps.
        random: The state that all generators start from.
    """

    batch: Batch
    loss: Loss | None
    steps: int
    random: Mapping[str, Any]

    @property
    def names(self) -> list[str]:
        """The names of the phases."""
        names = [f"the {name} step" for name in _ORDINALS[: self.steps]]
        names += [f"step {i + 1}" for i in range(len(names), self.steps)]
        return [*names, "evaluation"]


@dataclass(frozen=True)
class Subject:
    """A model to run, and its saved state.

    Attributes:
        model: The model, plain or instrumented.
        state: Its saved state.
        around_step: Gives the context that a training step runs in, by its number.
    """

    model: nn.Module
    state: State
    around_step: Callable[[int], AbstractContextManager[Any]] = field(
        default=lambda step: nullcontext()
    )

    def begin(self, task: Task) -> None:
        """Resets the model and all generators to their saved state, and turns training on."""
        self.state.restore(but_forwards=True)
        restore_random_state(task.random)
        if not self.model.training:
            self.model.train()

    def train(self, task: Task, batch: Batch, step: int) -> tuple[Any, torch.Tensor | None]:
        """Runs a training step; returns the output and, if there is one, its loss."""
        self.state.clear_gradients()
        args, kwargs = batch.given()
        with torch.enable_grad(), self.around_step(step):
            output = self.model(*args, **kwargs)
            loss = loss_of(output, task.loss)
            if loss is not None:
                loss.backward()
        return output, loss


def phases(subject: Subject, task: Task) -> Iterator[dict[str, Any]]:
    """The results of each phase, by path: some training steps, then an evaluation."""
    subject.begin(task)
    for step in range(task.steps):
        yield _train(subject, task, step)
    yield _evaluate(subject, task)


def _train(subject: Subject, task: Task, step: int) -> dict[str, Any]:
    batch = task.batch.fresh()
    output, loss = subject.train(task, batch, step)
    made = kept((*leaves(output), ("loss", loss)))
    gradients = {
        f"gradient of {name!r}": parameter.grad
        for name, parameter in subject.model.named_parameters()
    }
    gradients.update(subject.state.gradients())
    # The next step lets go of these tensors: they need no copy.
    return made | gradients | strides(gradients) | batch.left() | _left(subject)


def _evaluate(subject: Subject, task: Task) -> dict[str, Any]:
    subject.model.eval()
    batch = task.batch.fresh()
    args, kwargs = batch.given()
    with torch.no_grad():
        output = subject.model(*args, **kwargs)
    made = kept(leaves(output))
    parameters = kept((f"parameter {n!r}", p) for n, p in subject.model.named_parameters())
    return made | batch.left() | _left(subject) | parameters


def _left(subject: Subject) -> dict[str, Any]:
    """Buffers, changed attributes, and random states."""
    buffers = kept((f"buffer {name!r}", b) for name, b in subject.model.named_buffers())
    return buffers | subject.state.changes() | random_states()


def random_states() -> dict[str, Any]:
    """The state of each random generator of the process."""
    states = random_state()
    names = {"python": "Python", "numpy": "NumPy", "cuda": "CUDA"}
    return {
        f"random state of {names.get(name, name)}": state
        if isinstance(state, torch.Tensor)
        else pickle.dumps(state)
        for name, state in states.items()
    }
