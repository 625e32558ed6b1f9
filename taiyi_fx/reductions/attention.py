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
        return torch.maximum(a[0], b[0]), a[1] + b[1], a[2] + b[2], a[3] + b[3]

    def scale(self, state: State, factor: float) -> State:
        return state  # none of it is of gradients

    def finish(self, state: State) -> AttentionValue:
        largest, (of_all, drawn, squares, crossed), ahead, (taken, given, unplaced) = state
        totals, n = of_all[:-1], of_all[-1]
        means = totals / n
        # A mean is a ratio of two sums over the queries: its error is that of the sum of residuals,
        # of which those of the queries that were drawn vary.
        sums = drawn[:-1] - means * drawn[-1]
        sums_of_squares = squares[:-1] - 2 * means * crossed[:-1] + means.square() * squares[-1]
        taken, given = taken.double(), given.double()
        spread = (sums_of_squares - sums.square() / taken).clamp(min=0) / (taken - 1).clamp(min=1)
        variance = given * (given - taken) * spread / taken
        errors = torch.where(given > taken, variance.sqrt() / n, 0.0)
        is_sampled = self.queries is not None
        return AttentionValue(n, largest, totals, errors, ahead, unplaced, is_sampled)


def _measured(scores: Scores, sample: Sample) -> State:
    """The largest logit of each head, sums over queries, and counts.

    The sums are those of `_Found.columns`: over all queries, over those that were drawn, and over
    these of their squares and of their products with the last column. The counts are those of later
    keys that are allowed, then of the queries that were drawn, of those that they were drawn from,
    and of calls that say of no query where it stands.
    """
    heads, device = scores.heads, scores.device
    found = [_of_block(scores, block) for block in blocks(scores, sample)]
    if not found:  # no query, or no key
        nothing = torch.zeros(_SUMS + 1, heads, 0, dtype=torch.float64, device=device)
        found = [_Found(nothing.new_full((heads,), -torch.inf), nothing, 0)]
    largest, columns, ahead = found[0]
    for more in found[1:]:
        largest, ahead = torch.maximum(largest, more.largest), ahead + more.ahead
    if found[1:]:
        columns = torch.cat([of.columns for of in found], -1)
    # Of sums over samples: the queries at one position are read together, or not at all.
    drawn = columns[..., sample.first :]
    of_drawn = drawn.sum(-1)
    of_all = columns.sum(-1) + (sample.factor - 1) * of_drawn  # and of what each one stands for
    sums = [of_all, of_drawn, drawn.square().sum(-1), (drawn * drawn[-1]).sum(-1)]
    is_placed = scores.is_causal or scores.keys == scores.queries
    from_which = max(0, scores.queries - sample.first)
    counts = [max(0, len(sample.rows) - sample.first), from_which, 0 if is_placed else 1]
    ahead = ahead if isinstance(ahead, Tensor) else count(ahead, largest)
    return largest, torch.stack(sums), ahead, on_device(counts, device, torch.int64)


class _Found(NamedTuple):
    """The statistics of some queries, by head and position.

    Attributes:
        largest: The largest logit of each head.
        columns: For each query the sums over samples of what is totalled, and of one.
        ahead: The number of later keys that are allowed.
    """

    largest: Tensor
    columns: Tensor
    ahead: Tensor | int


def _of_block(scores: Scores, block: Block) -> _Found:
    logits, allowed = scores.block(block)
    if allowed is not None:
        logits = logits.masked_fill(~allowed, -torch.inf)
    top = logits.amax(-1, keepdim=True)
    below = logits.sub_(torch.where(top == -torch.inf, 0.0, top)).clamp_(min=_LOWEST)
    weights = below.exp()
    mass = weights.sum(-1)
    entropy = mass.log() - below.mul_(weights).sum(-1) / mass
    every = torch.arange(block.keys, device=weights.device, dtype=weights.dtype)
    positions, ahead = _positions(scores, block, allowed)
    distance = positions - (weights @ every) / mass
    seen = _allowed(scores, block, allowed)
    share = None if seen is None else seen.to(entropy.dtype)
    of_all = (
        entropy,
        _normalized(entropy, block.keys, share),
        weights[..., 0] / mass,
        distance,
        _of_later(scores, block, weights) / mass,
        torch.ones_like(entropy) if share is None else (share / scores.keys).expand_as(entropy),
        torch.ones_like(entropy),
    )
    columns = torch.stack(of_all)
    if seen is not None:
        columns = torch.where(seen > 0, columns, 0)
    samples = tuple(range(1, columns.ndim - 2))
    columns = columns.double()
    largest = top.double().amax((*range(top.ndim - 3), -2, -1))
    return _Found(largest, columns.sum(samples) if samples else columns, ahead)


def _allowed(scores: Scores, block: Block, allowed: Tensor | None) -> Tensor | None:
    """The number of keys that each query may see; None if all."""
    if scores.is_causal:
        return (block.rows + scores.shift + 1).clamp(0, block.keys)
    return None if allowed is None else allowed.sum(-1)


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
