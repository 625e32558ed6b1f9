"""Sound trainings with unusual settings: sparse, frozen, smoothed, clipped, decayed, restarted."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import give_group, rate, set_all
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import healthy
from benchmarks.faults.training import Training, cross_entropy


@healthy("mlp gpt")
def large_rate_behind_a_long_warm_up(t: Training) -> None:
    """Three times the rate, which is reached after fifty steps."""
    set_all(t, lr=3 * rate(t))
    t.schedule, t.clip = lambda step: min(1.0, (step + 1) / 50), 1.0


@healthy("mlp")
def inputs_of_which_most_are_zero(t: Training) -> None:
    """Counts of words: nine of ten numbers of a row are zero."""

    def thin_out(step: int, x: Tensor, y: Tensor) -> Batch:
        kept = torch.rand(x.shape, generator=torch.Generator().manual_seed(step)) < 0.1
        x = 3 * x.abs() * kept
        return x, (x[:, :5] + 0.1).argmax(1)

    t.change_batch(thin_out)


@healthy("gpt lstm")
def frozen_embeddings(t: Training) -> None:
    """Embeddings that stay as they were drawn."""
    t.module("first").requires_grad_(False)
    set_all(t, params=[p for p in t.model.parameters() if p.requires_grad])


@healthy("cnn gpt lstm")
def label_smoothing_of_a_third(t: Training) -> None:
    """Targets of which a third is spread over all classes."""
    t.backward = partial(cross_entropy, label_smoothing=0.3)


@healthy("cnn")
def dropout_of_four_in_ten_everywhere(t: Training) -> None:
    """Dropout behind each stage, for a longer training."""
    for module in t.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.4
    t.steps = 200


@healthy("gpt levit")
def decay_of_three_tenths(t: Training) -> None:
    """AdamW with a decay that transformers for images are trained with."""
    t.optimizer = torch.optim.AdamW(t.model.parameters(), lr=rate(t), weight_decay=0.3)


@healthy("cnn lstm")
def four_samples(t: Training) -> None:
    """Batches of four, with a smaller rate."""
    t.change_batch(lambda step, x, y: (x[:4], y[:4]))
    set_all(t, lr=rate(t) / 5)
    t.steps = 200


@healthy("gpt lstm gan")
def clipped_at_each_step(t: Training) -> None:
    """A norm so small that Adam sees directions alone."""
    t.clip = 0.02


@healthy("mlp-tanh lstm")
def sgd_without_momentum(t: Training) -> None:
    """A plain step along the gradient, for longer."""
    t.optimizer = torch.optim.SGD(t.model.parameters(), lr=0.3)
    t.steps = 200


@healthy("mlp cnn gpt")
def cosine_that_begins_again(t: Training) -> None:
    """A rate that falls to nothing every forty steps, and is then as large as before."""
    t.schedule, t.steps = lambda step: 0.5 * (1 + math.cos(math.pi * (step % 40) / 40)), 160


@healthy("mlp lstm gan")
def heads_of_zeros(t: Training) -> None:
    """Last layers that begin at nothing, so that the first step reaches them alone."""
    nn.init.zeros_(t.module("last").weight)
    nn.init.zeros_(t.module("last").bias)


@healthy("cnn")
def images_of_two_values(t: Training) -> None:
    """Pixels that are black or white."""
    t.change_batch(lambda step, x, y: ((x > 0).float(), y))


@healthy("cnn resnet")
def mixed_with_their_labels(t: Training) -> None:
    """Pairs of samples that are mixed, and lose by both labels."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        share = float(torch.distributions.Beta(0.4, 0.4).sample())
        logits = model(share * x + (1 - share) * x.flip(0))
        loss = share * F.cross_entropy(logits, y) + (1 - share) * F.cross_entropy(logits, y.flip(0))
        loss.backward()
        return loss

    t.backward = backward


@healthy("gpt")
def rates_that_fall_with_depth(t: Training) -> None:
    """Layers of which each has three quarters of the rate of the one behind it."""
    own = rate(t)
    for i, layer in enumerate(t.model.get_submodule("layers").children()):
        give_group(t, layer, lr=own * 0.75 ** (4 - i))


@healthy("cnn mlp")
def average_beside_the_weights(t: Training) -> None:
    """An average of all weights that is kept for later, and read by nobody yet."""
    average = [parameter.detach().clone() for parameter in t.model.parameters()]

    @torch.no_grad()
    def follow() -> None:
        for kept, parameter in zip(average, t.model.parameters(), strict=True):
            kept.lerp_(parameter, 0.01)

    t.each_step(follow)
