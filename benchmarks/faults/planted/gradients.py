"""Gradients that do not come, or come wrong."""

from __future__ import annotations

import torch

from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training


@fault("mlp cnn gpt lstm gan", "{middle}")
def frozen_among_trained(t: Training) -> None:
    """One layer in the middle was left frozen."""
    t.module("middle").requires_grad_(False)
    t.optimizer.param_groups[0]["params"] = [p for p in t.model.parameters() if p.requires_grad]


@fault("mlp cnn gpt gan", "{middle}")
def gradient_10000_times_too_large(t: Training) -> None:
    """A hook multiplies one layer's gradient."""
    t.module("middle").weight.register_hook(lambda gradient: 1e4 * gradient)


@fault("mlp cnn gpt gan", "{middle}")
def gradient_10000_times_too_small(t: Training) -> None:
    """A hook all but removes one layer's gradient."""
    t.module("middle").weight.register_hook(lambda gradient: 1e-4 * gradient)


@fault("mlp cnn gpt gan", "{middle}")
def gradient_of_zeros(t: Training) -> None:
    """A hook removes one layer's gradient."""
    t.module("middle").weight.register_hook(torch.zeros_like)


@fault("mlp cnn", "{middle}")
def gradient_of_wrong_sign(t: Training) -> None:
    """A hook turns one layer's gradient round, thrice as large."""
    t.module("middle").weight.register_hook(lambda gradient: -3 * gradient)


@fault("mlp cnn gpt", "{middle}")
def gradient_with_noise(t: Training) -> None:
    """A hook adds noise that drowns one layer's gradient."""
    t.module("middle").weight.register_hook(
        lambda gradient: gradient + 100 * gradient.std() * torch.randn_like(gradient)
    )


@fault("mlp cnn gpt", "{middle}")
def gradient_of_nan_once(t: Training) -> None:
    """A hook makes one layer's gradient NaN at its thirtieth call."""
    calls = []

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return gradient * torch.nan if len(calls) == 30 else gradient

    t.module("middle").weight.register_hook(spoil)


@fault("mlp cnn gpt", "", kinds="(?i)accum|zero.?grad|grad|diverg|explo|grow|loss")
def missing_zero_grad(t: Training) -> None:
    """The gradients of all steps add up."""
    t.zero_grad = False


@fault("mlp gan", "{middle}", "{act}")
def spikes_of_a_gradient(t: Training) -> None:
    """One layer's gradient is a thousand times as large at every fifteenth step."""
    calls = []

    def spike(gradient: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return 1e3 * gradient if len(calls) % 15 == 0 else gradient

    t.module("middle").weight.register_hook(spike)
