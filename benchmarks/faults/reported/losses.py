"""Faults of the loss, of gradients and of the data."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training, cross_entropy

_BLOWN_UP = "large_steps|divergence|non_finite|loss|plateau|wild_parameter"


@fault("mlp cnn gpt lstm", WHOLE, kinds="loss")
def softmax_before_cross_entropy(t: Training) -> None:
    """A loss that squashes what was squashed."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x).flatten(0, -2).softmax(-1), y.flatten())
        loss.backward()
        return loss

    t.backward = backward


@fault("mlp cnn gpt lstm", WHOLE, kinds="loss")
def logits_to_nll_loss(t: Training) -> None:
    """The negative log-likelihood of what is no logarithm of a probability."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.nll_loss(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        return loss

    t.backward = backward


@fault("mlp cnn", WHOLE, kinds=_BLOWN_UP)
def summed_over_the_batch(t: Training) -> None:
    """The sum over a batch in place of the mean."""
    t.backward = lambda model, x, y: cross_entropy(model, x, y, reduction="sum")


@fault("mlp cnn gpt lstm", WHOLE, kinds="not_cleared")
def no_zero_grad(t: Training) -> None:
    """Gradients of all steps are added up."""
    t.zero_grad = False


@fault("mlp cnn gpt", WHOLE, kinds="loss|divergence|large_steps")
def minus_before_the_loss(t: Training) -> None:
    """A loss that is to fall is made to rise."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        (-loss).backward()
        return loss

    t.backward = backward


@fault("mlp cnn lstm", WHOLE, kinds="plateau")
def shuffled_labels(t: Training) -> None:
    """Labels of other rows."""
    t.steps = 150
    t.change_batch(lambda step, x, y: (x, y[torch.randperm(len(y))]))


@fault("mlp cnn", WHOLE, kinds="loss|divergence")
def labels_shuffled_from_step_60(t: Training) -> None:
    """Labels that belong to other rows from some step on."""
    t.change_batch(lambda step, x, y: (x, y[torch.randperm(len(y))] if step >= 60 else y))


@fault("mlp cnn", "{first}", kinds="input")
def pixels_of_0_to_255(t: Training) -> None:
    """Data that nobody scaled."""
    t.change_batch(lambda step, x, y: (x * 64 + 128, y))


@fault("mlp cnn", "{first}", kinds="input")
def a_batch_with_nan(t: Training) -> None:
    """One sample of one batch that is missing."""

    def change(step: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x = x.clone()
        x[0] = x[0] if step != 30 else float("nan")
        return x, y

    t.change_batch(change)


@fault("mlp cnn gpt lstm", "{middle}")
def gradient_hook_times_1000(t: Training) -> None:
    """A hook that scales the gradient of one layer's weights."""
    for name, parameter in t.module("middle").named_parameters():
        if "weight" in name:
            parameter.register_hook(lambda g: g * 1000)


@fault("mlp gpt", "{middle}", kinds="non_finite|overflow")
def gradient_of_nan(t: Training) -> None:
    """A gradient that is NaN at one step."""
    step = [0]
    t.before_step.append(lambda now: step.__setitem__(0, now))
    weight = t.module("middle").weight
    weight.register_hook(lambda g: g * float("nan") if step[0] == 30 else g)


@fault("mlp cnn", WHOLE, kinds="small_steps|plateau|no_update")
def clipped_to_a_millionth(t: Training) -> None:
    """A bound of all gradients that is far too small."""
    t.clip = 1e-6


@fault("gan", "discriminator*", kinds="loss")
def sigmoid_before_the_logits(t: Training) -> None:
    """A discriminator that ends in a sigmoid, for a loss that has one."""
    change_class(t.model.get_submodule("discriminator"), lambda self, old, x: old(x).sigmoid())


@fault("gan", "generator*", kinds="missing|detached")
def generator_cut_off(t: Training) -> None:
    """False samples without a gradient."""
    change_class(t.model.get_submodule("generator"), lambda self, old, x: old(x).detach())
    before = t.backward

    def backward(model: Any, noise: Tensor, real: Tensor) -> Tensor:
        judged, fooled = model(noise, real)
        truth = torch.cat([torch.ones(len(real), 1), torch.zeros(len(noise), 1)])
        of_discriminator = F.binary_cross_entropy_with_logits(judged, truth)
        of_generator = F.binary_cross_entropy_with_logits(fooled, torch.ones_like(fooled))
        (of_discriminator + 0 * of_generator).backward()
        return of_discriminator + of_generator

    t.backward = backward if before else before


@fault("lstm", "{middle}", "{last}")
def only_the_first_state(t: Training) -> None:
    """The last state is taken of the wrong dimension: the batch's."""

    def forward(self, old, ids: Tensor) -> Tensor:
        states, _ = self.lstm(self.words(ids))
        return self.head(states[-1:, -1].expand(len(ids), -1))

    change_class(t.model, forward)
