"""Layers that begin with wrong weights."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training


@fault("mlp cnn gpt gan", "{middle}")
def weight_150_times_too_large(t: Training) -> None:
    """A layer's weight was drawn with a wrong scale."""
    t.module("middle").weight.data *= 150


@fault("mlp cnn gpt lstm", "{last}")
def head_100_times_too_large(t: Training) -> None:
    """Logits that are sure of everything from the start."""
    t.module("last").weight.data *= 100


@fault("mlp cnn gpt gan", "{middle}")
def weight_1000_times_too_small(t: Training) -> None:
    """A layer passes next to nothing."""
    t.module("middle").weight.data /= 1000


@fault("mlp cnn gpt gan", "{middle}")
def weight_of_zeros(t: Training) -> None:
    """A layer passes nothing but its bias."""
    nn.init.zeros_(t.module("middle").weight)


@fault("mlp gpt gan", "{middle}", "{act}")
def bias_that_kills_all_units(t: Training) -> None:
    """The activation behind is zero for every sample."""
    t.module("middle").bias.data.fill_(-30)


@fault("cnn", "{norm}", "{act}")
def shift_that_kills_all_channels(t: Training) -> None:
    """The batch norm's bias puts every ReLU behind it to sleep."""
    t.module("norm").bias.data.fill_(-30)


@fault("mlp gan", "{middle}", "{act}")
def bias_that_kills_most_units(t: Training) -> None:
    """Nine of ten ReLUs are dead, and training still goes on."""
    t.module("middle").bias.data[3:] = -30


@fault("mlp cnn gpt", "{middle}", "{act}", "{drop}", "{after}")
def identical_rows(t: Training) -> None:
    """All units of a layer compute the same."""
    weight = t.module("middle").weight.data
    weight.copy_(weight[:1].clone().expand_as(weight))


@fault("mlp cnn", "{last}")
def bias_of_one_class(t: Training) -> None:
    """The head begins sure of its first class."""
    head = t.module("last")
    head.bias.data[0] = 50


@fault("mlp-tanh", "{middle}", "{act}")
def saturated_tanh(t: Training) -> None:
    """A layer so large that the tanh behind it has no slope."""
    t.module("middle").weight.data *= 60


@fault("mlp-tanh", "{middle}", "{act}")
def saturated_by_its_bias(t: Training) -> None:
    """A bias that puts every tanh at one."""
    t.module("middle").bias.data.fill_(20)


@fault("mlp", "layers.*")
def gain_of_all_layers(t: Training) -> None:
    """Each layer makes its input four times as large."""
    for layer in t.model.layers:  # pyright: ignore[reportGeneralTypeIssues]
        layer.linear.weight.data *= 4


@fault("mlp", "layers.*")
def shrinkage_of_all_layers(t: Training) -> None:
    """Each layer makes its input five times as small, and its gradient."""
    for layer in t.model.layers:  # pyright: ignore[reportGeneralTypeIssues]
        layer.linear.weight.data /= 5


@fault("gpt", "{norm}")
def layer_norm_of_zeros(t: Training) -> None:
    """A norm whose weight lets nothing through."""
    nn.init.zeros_(t.module("norm").weight)


@fault("gpt cnn", "{norm}")
def norm_200_times_too_large(t: Training) -> None:
    """A norm whose weight undoes what it is there for."""
    t.module("norm").weight.data *= 200


@fault("gpt lstm", "{first}")
def embedding_500_times_too_large(t: Training) -> None:
    """Embeddings that drown all that is added to them."""
    t.module("first").weight.data *= 500


@fault("gpt", "{stage}.*")
def residual_branch_too_large(t: Training) -> None:
    """A block adds far more than all others."""
    t.module("after").weight.data *= 60


@fault("gpt", "{attention}", "{attention}.*")
def queries_and_keys_too_large(t: Training) -> None:
    """Attention that looks at one token alone."""
    qkv = t.module("attention").qkv.weight.data
    qkv[: 2 * len(qkv) // 3] *= 25


@fault("lstm", "{middle}")
def forget_bias_of_minus_10(t: Training) -> None:
    """An LSTM that forgets at once."""
    with torch.no_grad():
        t.module("middle").bias_hh_l0[32:64] = -10


@fault("lstm", "{middle}")
def recurrent_weight_too_large(t: Training) -> None:
    """Gates that are all the way open or shut."""
    t.module("middle").weight_hh_l0.data *= 60


@fault("gan", "{judge}")
def judge_80_times_too_large(t: Training) -> None:
    """A discriminator with one layer out of scale."""
    t.module("judge").weight.data *= 80
