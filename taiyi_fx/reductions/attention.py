"""Statistics of an attention: its logits and weights, one query after the other, and its output."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import CallArguments, State
from taiyi_fx.reductions.attention_output import SOFTMAXES, outputs_of
from taiyi_fx.reductions.attention_scores import (
    Block,
    Sample,
    Scores,
    blocks,
    sampled,
    scores_of,
)
from taiyi_fx.reductions.rows import accumulated, count, on_device

_LOWEST = -1000.0
"""The exponential of it is 0 in every type."""
_SUMS = 6
"""Rows of `AttentionValue.totals`."""


class AttentionValue(NamedTuple):
    """Finished `AttentionWeights`: for each head, over the queries with an allowed key.

    Attributes:
        n: The number of those queries; an estimate, where only some were read.
        largest: The largest logit of an allowed key.
        totals: Sums over these queries, one row each: of the entropy, of the entropy over the
            logarithm of the number of allowed keys, of the first key's weight, of the distance,
            of the weights of keys that are later than the query, and of the share of allowed keys.
        errors: The standard errors of the means of these, estimated from the sample, where only
            some queries were read.
        ahead: More than 0 if nothing keeps a query from keys that are later than itself.
        unplaced: The number of calls with another number of keys than of queries, of which a mask
            or causality does not say where among the keys a query stands.
        is_sampled: True if the configuration asks for some queries only.
    """

    n: Tensor
    largest: Tensor
    totals: Tensor
    errors: Tensor
    ahead: Tensor
    unplaced: Tensor
    is_sampled: bool


@dataclass(frozen=True)
class AttentionWeights:
    """Largest logit, and sums over queries of what the weights of their keys are like.

    From queries, keys, mask and causality as the call got them, in blocks: memory grows with the
    number of queries, never with its square. Dropout takes no part.

    Cost: one more product of queries and keys, and an exponential of each

    Attributes:
        queries: Read so many queries of each sample: a quarter are the first ones, the others are
            drawn, the same ones at each call. None reads all.
        heads: The number of heads, as far as the module says.
    """

    needs_heads = True

    queries: int | None = None
    heads: int | None = None

    def __post_init__(self) -> None:
        if self.queries is not None and self.queries < 2:
            raise ValueError(f"queries must be a number of at least 2, not {self.queries!r}")

    def measure_call(self, call: CallArguments, result: Any) -> State:
        scores = scores_of(call, self.heads)
        with torch.autocast(scores.device.type, enabled=False):
            return _measured(scores, sampled(scores.queries, self.queries))

    def merge(self, a: State, b: State) -> State:
        merged = [x + y for x, y in zip(a, b, strict=True)]
        merged[1] = torch.maximum(a[1], b[1])
        return tuple(merged)

    def scale(self, state: State, factor: float) -> State:
        return state  # none of it is of gradients

    def finish(self, state: State) -> AttentionValue:
        n, largest, totals, drawn, squares, crossed, read, ahead, unplaced = state
        means = totals / n
        # A mean is a ratio of two sums over the queries: its error is that of the sum of residuals,
        # of which those of the queries that were drawn vary.
        taken, given = read.double()
        own, counted = drawn[:-1], drawn[-1]
        sums = own - means * counted
        sums_of_squares = squares[:-1] - 2 * means * crossed + means.square() * squares[-1]
        spread = (sums_of_squares - sums.square() / taken).clamp(min=0) / (taken - 1).clamp(min=1)
        variance = given * (given - taken) * spread / taken
        errors = torch.where(given > taken, variance.sqrt() / n, 0.0)
        is_sampled = self.queries is not None
        return AttentionValue(n, largest, totals, errors, ahead, unplaced, is_sampled)


def _measured(scores: Scores, sample: Sample) -> State:
    heads, device = scores.heads, scores.device
    zeros = torch.zeros(heads, dtype=torch.float64, device=device)
    n = zeros.clone()
    totals, crossed = (torch.stack([zeros] * _SUMS) for _ in range(2))
    drawn, squares = (torch.stack([zeros] * (_SUMS + 1)) for _ in range(2))
    largest = torch.full_like(zeros, -torch.inf)
    ahead = torch.zeros((), dtype=torch.int64, device=device)
    for block in blocks(scores, sample):
        found = _of_block(scores, block)
        largest = torch.maximum(largest, found.largest)
        ahead = ahead + found.ahead
        n, totals = n + found.counts.sum(-1), totals + found.sums.sum(-1)
        if not block.drawn:
            continue
        # Of sums over samples: the queries at one position are read together, or not at all.
        of_drawn = torch.cat([found.sums, found.counts.unsqueeze(0)])[..., -block.drawn :]
        of_all = of_drawn.sum(-1)
        others = (sample.factor - 1) * of_all  # those that they stand for beside themselves
        n, totals = n + others[-1], totals + others[:-1]
        drawn, squares = drawn + of_all, squares + of_drawn.square().sum(-1)
        crossed = crossed + (of_drawn[:-1] * of_drawn[-1]).sum(-1)
    of_drawn = [len(sample.rows) - sample.first, scores.queries - sample.first]
    read = on_device([max(0, k) for k in of_drawn], device, torch.int64)
    is_placed = scores.is_causal or scores.keys == scores.queries
    unplaced = torch.full((), 0 if is_placed else 1, device=device)
    return n, largest, totals, drawn, squares, crossed, read, ahead, unplaced


class _Found(NamedTuple):
    """The statistics of some queries, by head and position; ``sums`` are those of the totals."""

    largest: Tensor
    counts: Tensor
    sums: Tensor
    ahead: Tensor | int


def _of_block(scores: Scores, block: Block) -> _Found:
    logits, allowed = scores.block(block)
    if allowed is not None:
        logits = logits.masked_fill(~allowed, -torch.inf)
    top = logits.amax(-1, keepdim=True)
    is_counted = torch.ones_like(top[..., 0], dtype=torch.bool)
    if allowed is not None:
        is_counted &= allowed.any(-1)
    below = logits.sub_(torch.where(top == -torch.inf, 0.0, top)).clamp_(min=_LOWEST)
    weights = below.exp()
    mass = weights.sum(-1)
    entropy = mass.log() - below.mul_(weights).sum(-1) / mass
    every = torch.arange(block.keys, device=weights.device, dtype=weights.dtype)
    positions, ahead = _positions(scores, block, allowed)
    distance = positions - (weights @ every) / mass
    seen = None if allowed is None else allowed.sum(-1).to(entropy.dtype)
    of_all = (
        entropy,
        _normalized(entropy, block.keys, seen),
        weights[..., 0] / mass,
        distance,
        _of_later(scores, block, weights) / mass,
        torch.ones_like(entropy) if seen is None else (seen / scores.keys).expand_as(entropy),
    )
    lead = tuple(range(is_counted.ndim - 2))
    sums = [_over(torch.where(is_counted, x, 0).double(), lead) for x in of_all]
    largest = top.squeeze(-1).double().amax((*lead, -1))
    return _Found(largest, _over(is_counted.double(), lead), torch.stack(sums), ahead)


def _over(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    return x.sum(axes) if axes else x


def _normalized(entropy: Tensor, keys: int, seen: Tensor | None) -> Tensor:
    """The entropy as a share of the largest one; 0 of a single key."""
    if seen is None:
        return entropy / math.log(keys) if keys > 1 else entropy
    largest = seen.log()
    return torch.where(largest > 0, entropy / largest, torch.zeros_like(entropy))


def _of_later(scores: Scores, block: Block, weights: Tensor) -> Tensor:
    """The sum of each query's weights of the keys that are later than itself."""
    if scores.is_causal:
        return torch.zeros_like(weights[..., 0])
    own = block.rows + scores.keys - scores.queries
    later = torch.arange(block.keys, device=own.device) > own.unsqueeze(-1)
    return (weights * later).sum(-1)


def _positions(scores: Scores, block: Block, allowed: Tensor | None) -> tuple[Tensor, Tensor | int]:
    """The position of each query among the keys, and the number of later keys that are allowed.

    Of as many keys as queries, each query stands at its own key. The last queries stand beside the
    last keys of a cache; where a mask leaves room at the cache's end, a query stands at the last
    key that it may see.
    """
    if scores.is_causal:
        return block.rows + scores.shift, 0
    own = block.rows + scores.keys - scores.queries
    every = torch.arange(block.keys, device=own.device)
    if allowed is None:  # of a single query no key is later, which says nothing of the attention
        return own, 1
    ahead = (allowed & (every > own.unsqueeze(-1))).sum()
    if scores.keys == scores.queries:
        return own, ahead
    return torch.where(allowed, every, 0).amax(-1), ahead


class HeadSquaresValue(NamedTuple):
    """Finished `HeadSquares`: the number of elements of each head, and their squares' sums."""

    n: Tensor
    squares: Tensor


@dataclass(frozen=True)
class HeadSquares:
    """Sum of squares of an attention's output, for each head.

    Where a module takes the softmax itself, the output is the product that its weights lead to.

    Cost: one pass over the output

    Attributes:
        heads: The number of heads, as far as the module says.
    """

    needs_heads = True
    of_product = SOFTMAXES

    heads: int | None = None

    def measure_call(self, call: CallArguments, result: Any) -> State:
        y = outputs_of(call, result, self.heads)
        axes = tuple(i for i in range(y.ndim) if i != y.ndim - 3)
        n = count(y.numel() // max(1, y.shape[-3]), y)
        return n, accumulated(y).double().square().sum(axes)

    def merge(self, a: State, b: State) -> State:
        return a[0] + b[0], a[1] + b[1]

    def scale(self, state: State, factor: float) -> State:
        return state[0], state[1] * factor**2

    def finish(self, state: State) -> HeadSquaresValue:
        return HeadSquaresValue(*state)
