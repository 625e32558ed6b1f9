"""Functions between modules that go wrong. The neighbours are as near as a finding can come."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.faults.fault import fault
from benchmarks.faults.models import Between
from benchmarks.faults.training import Training

_NEIGHBOURS = ("{stage}", "{stage}.*", "{next}", "{next}.*")


def _put(t: Training, function: Between) -> None:
    """Has a function of the step and the output take the place behind the stage."""
    now = [0]
    t.before_step.append(lambda step: now.__setitem__(0, step))
    number = int(t.names["stage"].rpartition(".")[2])

    def between(stage: int, x: Tensor) -> Tensor:
        return function(now[0], x) if stage == number else x

    t.model.between = between  # pyright: ignore[reportArgumentType]


@fault("mlp cnn gpt", *_NEIGHBOURS)
def division_by_zero(t: Training) -> None:
    """Division by a spread that is zero from step 20."""
    _put(t, lambda step, x: x / (x.std() * (step < 20)) if step >= 20 else x)


@fault("mlp cnn gpt", *_NEIGHBOURS)
def logarithm_of_a_negative(t: Training) -> None:
    """A logarithm of what may be below zero, from step 20."""
    _put(t, lambda step, x: (x - 0.1).log() if step >= 20 else x)


@fault("mlp cnn gpt", *_NEIGHBOURS)
def root_of_zero(t: Training) -> None:
    """A root whose slope at zero is infinite, from step 20: the values of that step are finite."""
    _put(t, lambda step, x: x + (x - x.detach()).sqrt() if step >= 20 else x)


@fault("mlp cnn gpt", *_NEIGHBOURS)
def overflow_in_half_precision(t: Training) -> None:
    """Values beyond what float16 holds are infinite, from step 25."""

    def overflow(step: int, x: Tensor) -> Tensor:
        scaled = 5e4 * x if step >= 25 else x
        return torch.where(scaled.abs() > 65504, torch.inf, scaled)

    _put(t, overflow)


@fault("mlp cnn gpt", *_NEIGHBOURS)
def exponential(t: Training) -> None:
    """An exponential of large values, from step 30."""
    _put(t, lambda step, x: (40 * x).exp() if step >= 30 else x)


@fault("mlp cnn gpt", *_NEIGHBOURS)
def detached(t: Training) -> None:
    """No gradient comes back through here."""
    _put(t, lambda step, x: x.detach())


@fault("mlp cnn gpt", *_NEIGHBOURS)
def scaled_up(t: Training) -> None:
    """A factor of a thousand slipped in."""
    _put(t, lambda step, x: 1e3 * x)


@fault("mlp cnn gpt", *_NEIGHBOURS)
def scaled_down(t: Training) -> None:
    """A factor of a ten-thousandth slipped in."""
    _put(t, lambda step, x: 1e-4 * x)


@fault("mlp cnn gpt", *_NEIGHBOURS)
def set_to_zero(t: Training) -> None:
    """A mask that hides all, from step 40."""
    _put(t, lambda step, x: x * (step < 40))


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.factor * gradients[0], None


@fault("mlp cnn gpt", *_NEIGHBOURS)
def gradient_of_a_function_1000_times_too_large(t: Training) -> None:
    """A function of one's own, whose backward has a wrong factor."""
    _put(t, lambda step, x: _ScaledGradient.apply(x, 1e3))  # pyright: ignore


@fault("mlp cnn gpt", *_NEIGHBOURS)
def gradient_of_a_function_100000_times_too_small(t: Training) -> None:
    """A function of one's own, whose backward loses nearly all."""
    _put(t, lambda step, x: _ScaledGradient.apply(x, 1e-5))  # pyright: ignore
