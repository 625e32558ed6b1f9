"""Faults of attention: its masks, its scale, and logits that leave no choice."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training


def _attend(t: Training, weigh: Callable[[Tensor], Tensor]) -> None:
    """Has a function make the weights of an attention of its logits, mask and all."""

    def forward(self, old, x: Tensor) -> Tensor:
        n, s, c = x.shape
        q, k, v = self.qkv(x).view(n, s, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        mixed = weigh(q @ k.mT * self.scale) @ v
        return self.proj(mixed.transpose(1, 2).reshape(n, s, c))

    change_class(t.module("attention"), forward)


def _past(logits: Tensor) -> Tensor:
    return torch.ones_like(logits, dtype=torch.bool).tril()


def _rows(t: Training, part: int) -> Tensor:
    """The weight of the queries, keys or values of an attention."""
    return t.module("attention").qkv.weight.data.chunk(3)[part]


@fault("gpt", "{attention}*")
def queries_that_grow(t: Training) -> None:
    """Queries whose weight grows by a twentieth at each step, and the logits with it."""
    t.each_step(lambda: _rows(t, 0).mul_(1.05))


@fault("gpt", "{attention}*")
def queries_times_200(t: Training) -> None:
    """Queries so large that each looks at one key from the start."""
    _rows(t, 0).mul_(200)


@fault("gpt", "{attention}*")
def keys_times_200_from_step_40(t: Training) -> None:
    """Keys that are loaded without the scale that they were stored with."""
    t.at(40, lambda: _rows(t, 1).mul_(200))


@fault("gpt", "{attention}*")
def values_of_zero(t: Training) -> None:
    """Values that begin at zero and are kept there."""
    t.before_step.append(lambda step: _rows(t, 2).zero_())


@fault("gpt", "{attention}*")
def mask_that_leaves_only_oneself(t: Training) -> None:
    """A mask by which each token sees itself alone."""
    _attend(t, lambda x: x.masked_fill(~_past(x).triu(), float("-inf")).softmax(-1))


@fault("gpt", "{attention}*")
def mask_that_hides_oneself(t: Training) -> None:
    """A mask by which the first token sees nothing at all: a softmax of nothing is NaN."""
    _attend(t, lambda x: x.masked_fill(~_past(x).tril(-1), float("-inf")).softmax(-1))


@fault("gpt", "{attention}*")
def mask_times_minus_infinity(t: Training) -> None:
    """A mask of zeros and ones times minus infinity: zero times infinity is NaN."""
    _attend(t, lambda x: (x + ~_past(x) * float("-inf")).softmax(-1))


@fault("gpt", "{attention}*")
def scale_of_ten_thousand(t: Training) -> None:
    """A division by the scale in place of a product."""
    t.module("attention").scale = 1e4


@fault("gpt", "{attention}*")
def temperature_of_zero(t: Training) -> None:
    """A temperature of zero, which leaves logits of infinity."""
    _attend(t, lambda x: (x / 0.0).masked_fill(~_past(x), float("-inf")).softmax(-1))


@fault("gpt", "{attention}*")
def no_softmax(t: Training) -> None:
    """Logits that are taken for weights, and ten times as large."""
    _attend(t, lambda x: 10 * x.masked_fill(~_past(x), 0.0))


@fault("gpt", "{attention}*")
def exponentials_that_are_not_divided(t: Training) -> None:
    """A softmax that forgets to divide by its sum, and is large by as many keys."""
    _attend(t, lambda x: (3 * x).exp().masked_fill(~_past(x), 0.0))


@fault("gpt", "{attention}*")
def queries_cut_off(t: Training) -> None:
    """Weights of attention through which no gradient passes."""
    _attend(
        t, lambda x: x.detach().masked_fill(~_past(x), float("-inf")).softmax(-1).detach() * 0.001
    )
