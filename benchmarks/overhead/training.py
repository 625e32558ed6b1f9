"""A model in training, one step at a time."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from benchmarks.overhead.models import Batch, Case, loss_of
from benchmarks.overhead.tools import TOOLS, Watched
from benchmarks.overhead.work import Work

_RATE = 1e-4  # small: after thousands of steps with one batch the numbers are as at the start


class Training:
    """A model in training.

    Args:
        watched: The model and what watches it.
        batch: What it is trained with.
        autocast: The type that autocast computes in, if it is on.

    Attributes:
        step: The number of the step that comes next.
    """

    def __init__(self, watched: Watched, batch: Batch, autocast: torch.dtype | None = None) -> None:
        self.watched = watched
        self.batch = batch
        self._autocast = autocast
        self.step = 0
        self._optimizer = torch.optim.SGD(watched.model.parameters(), lr=_RATE)

    def run_step(self) -> None:
        """One step of training."""
        self._optimizer.zero_grad()
        self._loss().backward()
        self.watched.end_of_backward(self.step)
        self._optimizer.step()
        self.step += 1

    def _loss(self) -> Tensor:
        if self._autocast is None:
            return loss_of(self.watched.model(self.batch[0]), self.batch[1])
        with torch.autocast(self.batch[0].device.type, self._autocast):
            return loss_of(self.watched.model(self.batch[0]), self.batch[1])

    def run(self, steps: int) -> None:
        """Some steps and all that they leave to be done."""
        for _ in range(steps):
            self.run_step()
        self.watched.wait()

    def clear_gradients(self) -> None:
        """Lets go of what the last step left."""
        self._optimizer.zero_grad()


def started(case: Case, work: Work, tool: str) -> Training:
    """The model as every tool gets it, watched by one of them."""
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, (x, classes) = case.build().to(device), case.batch()
    training = Training(TOOLS[tool].watch(model, work), (x.to(device), classes.to(device)))
    training.step = work.first_step
    return training


def warm_up(training: Training, work: Work) -> None:
    """Steps before the first that counts: everything is compiled, the next step is due."""
    if work.warms_up:
        training.run(max(4, 2 * work.interval))


def twin(training: Training, case: Case) -> nn.Module:
    """A plain model with the same parameters and buffers."""
    model = case.build().to(training.batch[0].device)
    state = copy.deepcopy(training.watched.model.state_dict())
    model.load_state_dict({name.removeprefix("_orig_mod."): x for name, x in state.items()})
    return model
