"""Faults of code that writes into weights while training goes on."""

from __future__ import annotations

import torch

from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training


@fault("mlp gpt cnn", "{middle}")
def stale_average_copied_back(t: Training) -> None:
    """An average of weights that is copied back at each step."""
    weight = t.module("middle").weight
    average = weight.detach().clone()

    @torch.no_grad()
    def copy() -> None:
        average.lerp_(weight, 1e-4)
        weight.copy_(average)

    t.each_step(copy)


@fault("mlp gpt cnn", "{middle}")
def reset_at_step_40(t: Training) -> None:
    """A layer that is initialised once more while training goes on."""
    weight = t.module("middle").weight
    t.at(40, lambda: torch.nn.init.normal_(weight, std=float(weight.detach().std())))


@fault("mlp cnn gpt", "{middle}")
def noise_at_each_step(t: Training) -> None:
    """Noise that something adds to one weight at each step."""
    weight = t.module("middle").weight

    @torch.no_grad()
    def add() -> None:
        weight.add_(torch.randn_like(weight) * weight.std() * 0.3)

    t.each_step(add)


@fault("gan", "discriminator*")
def clamp_left_in(t: Training) -> None:
    """The clamp of another kind of GAN, far too tight."""
    weights = [p for p in t.model.get_submodule("discriminator").parameters() if p.dim() > 1]

    @torch.no_grad()
    def clamp() -> None:
        for weight in weights:
            weight.clamp_(-0.001, 0.001)

    t.before_step.append(lambda step: clamp())


@fault("mlp cnn gpt", "{middle}")
def weight_times_1_05_at_each_step(t: Training) -> None:
    """A weight decay of the wrong sign."""
    weight = t.module("middle").weight

    @torch.no_grad()
    def grow() -> None:
        weight.mul_(1.05)

    t.each_step(grow)


@fault("mlp gpt", "{middle}")
def pruned_at_step_50(t: Training) -> None:
    """Nine of ten weights of a layer are set to zero at one step."""
    weight = t.module("middle").weight

    @torch.no_grad()
    def prune() -> None:
        weight.mul_(torch.rand_like(weight) < 0.1)

    t.at(50, prune)


@fault("cnn", "{norm}")
def running_statistics_reset(t: Training) -> None:
    """Running statistics that something resets at each step."""
    t.each_step(t.module("norm").reset_running_stats)
