"""Weights that something changes while training goes on."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training


@fault("mlp cnn gpt gan", "{middle}")
def nan_in_one_weight(t: Training) -> None:
    """One element is NaN from step 30."""
    t.at(30, lambda: t.module("middle").weight.data.view(-1)[3].fill_(torch.nan))


@fault("lstm", "{middle}")
def nan_in_a_recurrent_weight(t: Training) -> None:
    """One element is NaN from step 30."""
    t.at(30, lambda: t.module("middle").weight_hh_l0.data[3, 3].fill_(torch.nan))


@fault("gpt lstm", "{first}")
def infinity_in_an_embedding(t: Training) -> None:
    """The embedding of one token is infinite from step 40."""
    token = ord("e") if t.model.get_parameter("words.weight").shape[0] == 128 else 3
    t.at(40, lambda: t.module("first").weight.data[token].fill_(torch.inf))


@fault("mlp cnn gpt", "{middle}")
def flipped_bit(t: Training) -> None:
    """The exponent of one element changes at step 40."""
    t.at(40, lambda: t.module("middle").weight.data.view(-1)[5].fill_(2.0**60))


@fault("mlp cnn gpt gan", "{middle}")
def weight_that_grows(t: Training) -> None:
    """A layer's weight grows by a twentieth at each step."""
    t.each_step(lambda: t.module("middle").weight.data.mul_(1.05))


@fault("mlp cnn gpt", "{middle}")
def weight_that_shrinks(t: Training) -> None:
    """A layer's weight loses a tenth at each step."""
    t.each_step(lambda: t.module("middle").weight.data.mul_(0.9))


@fault("gpt", "{first}")
def embedding_that_grows(t: Training) -> None:
    """The embedding grows by a tenth at each step."""
    t.each_step(lambda: t.module("first").weight.data.mul_(1.1))


@fault("mlp cnn gpt", "{middle}")
def weight_drawn_anew(t: Training) -> None:
    """A layer forgets all at step 50, ten times as large as it was."""
    t.at(50, lambda: nn.init.normal_(t.module("middle").weight, std=2.0))


@fault("mlp cnn gpt gan", "{middle}")
def weight_restored_at_each_step(t: Training) -> None:
    """A copy of the first weight overwrites what was learnt."""
    first = t.module("middle").weight.detach().clone()
    t.each_step(lambda: t.module("middle").weight.data.copy_(first))


@fault("mlp cnn gpt", "{middle}")
def weight_clamped_to_a_thousandth(t: Training) -> None:
    """A layer's weight is cut off at 0.001 at each step."""
    t.each_step(lambda: t.module("middle").weight.data.clamp_(-1e-3, 1e-3))


@fault("mlp cnn gpt", "{middle}")
def noise_on_a_weight(t: Training) -> None:
    """Something writes noise into a layer at each step."""

    def disturb() -> None:
        weight = t.module("middle").weight.data
        weight += 0.3 * weight.std() * torch.randn_like(weight)

    t.each_step(disturb)


@fault("mlp cnn gpt", "{last}")
def head_set_to_zero(t: Training) -> None:
    """The head is cleared at each step, so that nothing before it gets a gradient."""
    t.each_step(lambda: nn.init.zeros_(t.module("last").weight))
