"""A training that can be changed before it runs, and its run under watch."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import taiyi_fx
from benchmarks.faults.config import configuration
from benchmarks.faults.data import Batch

Losses = Callable[[nn.Module, Any, Tensor], Tensor]
"""Runs forward and backward of one batch with a model, and returns the loss."""


@dataclass
class Training:
    """A model and all that trains it.

    Attributes:
        model: What is trained.
        batch: Makes the inputs and targets of a step.
        optimizer: Moves the parameters; a fault changes its groups.
        names: Modules by the part that they play, such as ``middle``.
        backward: Runs forward and backward.
        steps: How many.
        before_step: Called with the number of each step before its forward.
        after_step: Called with the number of each step, and the monitor, after it.
        micro_batches: How many batches make a step.
        clip: Largest norm of all gradients.
        schedule: Factor of the learning rate at a step.
        autocast: Whether the forward runs in bfloat16, or with a scaler in float16.
        scaler: Scales the loss, which is for `backward` to do.
        zero_grad: Whether gradients are cleared between steps.
        is_preset: Whether the monitor gets no configuration of the bench's, but takes a preset.
    """

    model: nn.Module
    batch: Callable[[int], Batch]
    optimizer: torch.optim.Optimizer
    names: Mapping[str, str]
    backward: Losses
    steps: int = 100
    before_step: list[Callable[[int], object]] = field(default_factory=list)
    after_step: list[Callable[[int, taiyi_fx.Monitor], object]] = field(default_factory=list)
    micro_batches: int = 1
    clip: float | None = None
    schedule: Callable[[int], float] | None = None
    autocast: bool = False
    scaler: torch.amp.GradScaler | None = None
    zero_grad: bool = True
    is_preset: bool = False

    def module(self, part: str) -> Any:
        """The module that plays a part. Its class is the model's business, hence `Any`."""
        return self.model.get_submodule(self.names[part])

    def at(self, step: int, change: Callable[[], object]) -> None:
        """Has something changed before one step."""
        self.before_step.append(lambda now: change() if now == step else None)

    def each_step(self, change: Callable[[], object]) -> None:
        """Has something changed before every step but the first."""
        self.before_step.append(lambda now: change() if now else None)

    def change_batch(self, change: Callable[[int, Tensor, Tensor], Batch]) -> None:
        """Has a function of the step, inputs and targets make the batches from those of now."""
        before = self.batch
        self.batch = lambda step: change(step, *before(step))


def run(training: Training) -> taiyi_fx.InstrumentedModule:
    """Trains to the end under watch, from a fixed seed.

    The monitor's warnings are passed over: what they tell is in what it recorded, too.

    Returns:
        The watched model, whose monitor has all records.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        torch.manual_seed(1)
        watched = taiyi_fx.instrument(
            training.model,
            None if training.is_preset else configuration(training.model),
            optimizer=training.optimizer,
        )
        _train(training, watched)
        watched.monitor.flush()
    return watched


def _train(training: Training, watched: taiyi_fx.InstrumentedModule) -> None:
    optimizer, factor = training.optimizer, training.schedule
    scheduler = factor and torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    for step in range(training.steps):
        for change in training.before_step:
            change(step)
        with _keeping_graphs():
            watched.monitor.log("loss", _backward(training, watched, step))
        watched.monitor.track(step, training.scaler)
        if training.clip is not None:
            nn.utils.clip_grad_norm_(training.model.parameters(), training.clip)
        if training.scaler is None:
            optimizer.step()
        else:
            training.scaler.step(optimizer)
            training.scaler.update()
        if scheduler:
            scheduler.step()
        if training.zero_grad:
            optimizer.zero_grad()
        for look in training.after_step:
            look(step, watched.monitor)


def cross_entropy(model: nn.Module, x: Tensor, y: Tensor, **options: Any) -> Tensor:
    """Forward and backward of the cross-entropy over all rows; options are those of torch's."""
    loss = F.cross_entropy(model(x).flatten(0, -2).float(), y.flatten(), **options)
    loss.backward()
    return loss


def balanced(model: nn.Module, x: Tensor, y: Tensor, *, weight: float = 0.01) -> Tensor:
    """The same with a share of the loss that balances experts."""
    loss = F.cross_entropy(model(x).flatten(0, -2).float(), y.flatten())
    (loss + weight * model.get_submodule("").balance()).backward()
    return loss


def adversarial(model: nn.Module, noise: Tensor, real: Tensor) -> Tensor:
    """Forward and backward of both losses of a GAN, and their sum."""
    judged, fooled = model(noise, real)
    truth = torch.cat([torch.ones(len(real), 1), torch.zeros(len(noise), 1)])
    of_discriminator = F.binary_cross_entropy_with_logits(judged, truth)
    of_generator = F.binary_cross_entropy_with_logits(fooled, torch.ones_like(fooled))
    of_discriminator.backward(inputs=_trained(model.discriminator), retain_graph=True)
    of_generator.backward(inputs=_trained(model.generator))
    return of_discriminator + of_generator


def _trained(module: Any) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


@contextlib.contextmanager
def _keeping_graphs() -> Iterator[None]:
    """In the body a backward frees nothing: what is logged behind it is seen as if it came before.

    As users log a loss, where functions of the bench run its backward before they return it.
    """
    backward = torch.autograd.backward

    def keeping(
        tensors: Any, gradients: Any = None, keeps: Any = None, *more: Any, **own: Any
    ) -> None:
        own.pop("retain_graph", None)
        backward(tensors, gradients, True, *more, **own)

    torch.autograd.backward = keeping
    try:
        yield
    finally:
        torch.autograd.backward = backward


def _backward(training: Training, model: nn.Module, step: int) -> Tensor:
    narrow = torch.bfloat16 if training.scaler is None else torch.float16
    of = torch.autocast("cpu", narrow) if training.autocast else contextlib.nullcontext()
    losses = []
    for micro in range(training.micro_batches):
        with of:
            x, y = training.batch(step * training.micro_batches + micro)
            losses.append(training.backward(model, x, y))
    if training.micro_batches > 1:
        for parameter in training.model.parameters():
            if parameter.grad is not None:
                parameter.grad /= training.micro_batches
    return torch.stack(losses).mean() if len(losses) > 1 else losses[0]
