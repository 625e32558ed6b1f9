"""Memory and arithmetic that fail: flipped bits, stuck ones, lost shards."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.faults.fault import fault
from benchmarks.faults.opened.edits import NEIGHBOURS, put
from benchmarks.faults.training import Training


def _weight(t: Training, part: str) -> nn.Parameter:
    named = t.module(part).named_parameters()
    return next(parameter for name, parameter in named if name.startswith("weight"))


@fault("mlp lstm gan", "{late}", kinds="weight_jump|loss_spike|non_finite")
def flipped_bit_of_a_moment(t: Training) -> None:
    """One number that the optimizer keeps of a weight is far too large from step 45."""

    def flip() -> None:
        state = t.optimizer.state[_weight(t, "late")]
        kept = state["momentum_buffer" if "momentum_buffer" in state else "exp_avg"]
        kept.view(-1)[9] = 2.0**20

    t.at(45, flip)


@fault("mlp", "{middle}", kinds="weight_jump|loss_spike|gradient_spike")
def flipped_bit_of_a_gradient(t: Training) -> None:
    """One element of one gradient is far too large, at step 52 alone."""
    calls = [0]

    def flip(gradient: Tensor) -> Tensor:
        calls[0] += 1
        gradient = gradient.clone()
        if calls[0] == 53:
            gradient.view(-1)[17] = 2.0**24
        return gradient

    _weight(t, "middle").register_hook(flip)


@fault("mlp", *NEIGHBOURS, kinds="loss_spike|non_finite|weight_jump|divergence")
def flipped_bit_of_an_activation(t: Training) -> None:
    """One element that passes between two stages is far too large, at step 55 alone."""

    def flip(step: int, x: Tensor) -> Tensor:
        if step != 55:
            return x
        wild = torch.zeros_like(x)
        wild.view(-1)[11] = 2.0**40
        return x + wild

    put(t, flip)


@fault("mlp", "{late}", kinds="weight_jump|loss_spike|non_finite")
def page_of_a_weight_overwritten(t: Training) -> None:
    """A run of twenty elements in the middle of a weight that are another's, from step 42."""
    t.at(42, lambda: _weight(t, "late").data.view(-1)[40:60].copy_(1e3 * torch.arange(20)))


@fault("mlp", "{early}")
def elements_stuck_at_large_numbers(t: Training) -> None:
    """Two elements of a weight that are 50 again at each step, whatever was learnt."""
    weight = _weight(t, "early").data.view(-1)
    t.each_step(lambda: weight[5:60:50].fill_(50.0))


@fault("mlp", "{late}")
def mask_that_leaves_three_in_a_hundred(t: Training) -> None:
    """A mask for pruning that was made with the share that is to go for the one that stays."""
    weight = _weight(t, "late").data
    mask = torch.rand_like(weight) < 0.03
    t.before_step.append(lambda step: weight.mul_(mask))


@fault("cnn", "{norm}")
def running_variance_below_zero(t: Training) -> None:
    """Running variances that are negative from step 30: only an evaluation is NaN by it."""
    t.at(30, lambda: t.module("norm").running_var.fill_(-1e5))


@fault("gan lstm", "{last}", kinds="loss_spike|weight_jump|non_finite")
def sign_and_scale_of_a_bias_lost(t: Training) -> None:
    """A bias read with the wrong order of bytes at step 48."""
    t.at(48, lambda: t.module("last").bias.data.neg_().mul_(1e4).add_(1e3))


@fault("mlp-tanh", "{late}")
def noise_of_a_link_in_half_of_a_gradient(t: Training) -> None:
    """Half of a gradient's elements replaced by those of other steps, at random places."""
    kept: list[Tensor] = []

    def mix(gradient: Tensor) -> Tensor:
        kept.append(gradient.clone())
        other = kept[torch.randint(len(kept), ()).item()]  # pyright: ignore
        return torch.where(torch.rand_like(gradient) < 0.5, gradient, -20 * other)

    _weight(t, "late").register_hook(mix)
