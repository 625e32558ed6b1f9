"""Faults of initialisation."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training


@torch.no_grad()
def _scale(t: Training, part: str, factor: float, of: str = "weight") -> None:
    for name, parameter in t.module(part).named_parameters():
        if of in name:
            parameter.mul_(factor)


@fault("mlp cnn gpt lstm gan", "{middle}")
def weights_of_a_thousandth(t: Training) -> None:
    """One layer that begins a thousand times too small."""
    _scale(t, "middle", 1e-3)


@fault("mlp gpt lstm gan", "{middle}")
def weights_times_30(t: Training) -> None:
    """One layer that begins 30 times too large."""
    _scale(t, "middle", 30)


@fault("mlp cnn gpt", "{middle}")
def weights_that_are_all_equal(t: Training) -> None:
    """One layer whose units are all the same."""
    nn.init.constant_(t.module("middle").weight, 0.05)


@fault("mlp cnn", "{middle}", "{norm}", "{act}")
def weights_of_zero(t: Training) -> None:
    """One layer in a chain that begins with nothing."""
    t.names = {"norm": t.names["middle"], **t.names}
    nn.init.zeros_(t.module("middle").weight)


@fault("gpt lstm", "{first}")
def embedding_times_300(t: Training) -> None:
    """An embedding that was scaled up."""
    _scale(t, "first", 300)


@fault("gpt", "places")
def positions_times_300(t: Training) -> None:
    """Positions that drown the tokens."""
    with torch.no_grad():
        t.model.get_submodule("places").weight.mul_(300)


@fault("mlp gan", "{middle}", "{act}", "{stage}*")
def bias_that_kills(t: Training) -> None:
    """A bias so far below zero that no ReLU behind it fires."""
    t.names = {"stage": t.names["middle"], **t.names}
    nn.init.constant_(t.module("middle").bias, -4.0)


@fault("cnn", "{norm}", "{act}")
def shift_of_the_norm_that_kills(t: Training) -> None:
    """A shift of a BatchNorm so far below zero that no ReLU behind it fires."""
    nn.init.constant_(t.module("norm").bias, -4.0)


@fault("cnn gpt", "{norm}", "{act}", "{stage}*")
def gain_of_zero(t: Training) -> None:
    """A gain of a norm that begins with nothing, where no residual helps."""
    nn.init.zeros_(t.module("norm").weight)
    t.module("norm").weight.requires_grad_(False)


@fault("mlp-tanh", "{middle}", "{act}", "{stage}*")
def saturating_tanh(t: Training) -> None:
    """Weights so large that a tanh is at its ends."""
    _scale(t, "middle", 15)


@fault("lstm", "{middle}")
def exploding_recurrent_matrix(t: Training) -> None:
    """A recurrent matrix whose states cannot stay small."""
    _scale(t, "middle", 40, of="weight_hh")


@fault("lstm", "{middle}")
def recurrent_bias_of_100(t: Training) -> None:
    """A bias that keeps all gates open."""
    nn.init.constant_(t.module("middle").get_parameter("bias_ih_l0"), 100.0)


@fault("mlp cnn gan lstm", "{last}")
def bias_of_the_head_of_50(t: Training) -> None:
    """A head that is sure of one class."""
    with torch.no_grad():
        t.module("last").bias[0] = 50.0


@fault("gpt", "{last}")
def head_times_100(t: Training) -> None:
    """A head whose logits are far too large."""
    _scale(t, "last", 100)


@fault("mlp cnn gpt", "{middle}")
def frozen_layer(t: Training) -> None:
    """One layer that was left frozen."""
    t.module("middle").requires_grad_(False)


@fault("gpt mlp cnn", "{stage}*")
def frozen_block(t: Training) -> None:
    """One block that was left frozen."""
    t.module("stage").requires_grad_(False)


@fault("mlp gpt", "{middle}", "{act}")
def all_rows_but_one_of_zero(t: Training) -> None:
    """A layer of which all but one unit is zero."""
    with torch.no_grad():
        t.module("middle").weight[1:] = 0
