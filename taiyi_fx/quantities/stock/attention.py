"""Attention: its logits, the weights that it gives to keys, and its output, by head."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from taiyi_fx.quantities.declare import Defined, NoValue, quantity
from taiyi_fx.quantities.heads import ATTENTION
from taiyi_fx.quantities.places import CallPlace
from taiyi_fx.reductions import (
    AttentionValue,
    AttentionWeights,
    HeadSquares,
    HeadSquaresValue,
)

Reduce = Literal["all", "head"]

attention = CallPlace(ATTENTION)
weights = attention.reduce(AttentionWeights)

_ENTROPY, _NORMALIZED, _SINK, _DISTANCE, _AHEAD, _ALLOWED = range(6)


@quantity("AttentionLogitMax", accuracy="1e-5 of the largest product", found=weights)
def attention_logit_max(found: AttentionValue, *, reduce: Reduce = "all") -> Tensor:
    """Largest logit of an attention over all queries and the keys that they may see.

    Of the logits as they enter the softmax: scaled, and with what a mask adds to allowed keys. With
    ``reduce="head"`` a vector over heads. Where it grows to a hundred and more, weights become
    all or nothing and gradients vanish or jump. With ``queries=n`` it is the largest of those read.

    Formula: max over i and allowed j of q_i . k_j / sqrt(d)
    Source: arXiv 2302.05442 (its divergence); arXiv 2309.14322
    """
    _check(found)
    return found.largest if reduce == "head" else found.largest.amax()


@quantity("AttentionEntropy", unit="nats", accuracy="1e-5", found=weights, health="lasting")
def attention_entropy(
    found: AttentionValue, *, reduce: Reduce = "all", normalized: bool = False
) -> dict[str, Tensor]:
    """Mean entropy of the weights that a query gives to its keys: the mean of all heads' means.

    0 where each query looks at one key; ``normalized=True`` divides each query's by the logarithm
    of the number of its allowed keys, so that 1 is even attention; a single key counts as 0.
    With ``reduce="head"`` a vector over heads; queries without an allowed key are left out.

    Formula: mean over i of -sum_j p_ij log p_ij
    Source: arXiv 2303.06296
    """
    return _mean(found, _NORMALIZED if normalized else _ENTROPY, reduce)


@quantity("AttentionSink", unit="share", accuracy="1e-5", found=weights)
def attention_sink(found: AttentionValue, *, reduce: Reduce = "all") -> dict[str, Tensor]:
    """Mean weight that a query gives to the first key: the mean of all heads' means.

    With ``reduce="head"`` a vector over heads. Where batches are padded on the left, the first key
    of most samples is padding, whose weight is 0.

    Formula: mean over i of p_i0
    Source: arXiv 2309.17453
    """
    return _mean(found, _SINK, reduce)


@quantity("AttentionDistance", unit="positions", accuracy="1e-5 of the length", found=weights)
def attention_distance(found: AttentionValue, *, reduce: Reduce = "all") -> dict[str, Tensor]:
    """Mean distance from a query back to the keys that it gives weight to.

    Of causal attention alone, by ``is_causal`` or by a mask: elsewhere there is no record, nor of a
    single query that sees all keys without a mask. With a cache, the last queries stand beside the
    last keys. The mean of all heads' means, with ``reduce="head"`` a vector over heads.

    Formula: mean over i of sum_j p_ij (i - j)
    """
    if found.ahead > 0:
        raise NoValue(
            "the attention is not causal: nothing keeps queries from keys that are later than they"
        )
    return _mean(found, _DISTANCE, reduce)


@quantity("AttentionAhead", unit="share", accuracy="1e-5", found=weights)
def attention_ahead(found: AttentionValue, *, reduce: Reduce = "all") -> dict[str, Tensor]:
    """Mean weight that a query gives to keys which are later than itself.

    0 of causal attention, near a half of attention that sees all, and 1 where a mask is turned
    round. Of attention with as many keys as queries, or causal by ``is_causal``: elsewhere no query
    has a place among the keys, and there is no record. The mean of all heads' means, with
    ``reduce="head"`` a vector over heads.

    Formula: mean over i of sum_{j > i} p_ij
    """
    if found.unplaced > 0:
        raise NoValue("there are more keys than queries, or fewer: none is later than another")
    return _mean(found, _AHEAD, reduce)


@quantity("AttentionAllowed", unit="share", accuracy="1e-5", found=weights)
def attention_allowed(found: AttentionValue, *, reduce: Reduce = "all") -> dict[str, Tensor]:
    """Mean share of keys that a query may see, by the mask and causality.

    1 without a mask; of a mask of padding alone the share of keys that are none. The mean of all
    heads' means, with ``reduce="head"`` a vector over heads; queries without an allowed key are
    left out, and heads without such a query.

    Formula: mean over i of (allowed keys of i) / (all keys)
    """
    return _mean(found, _ALLOWED, reduce)


@quantity("HeadNorm", accuracy="1e-6", health="lasting", found=attention.reduce(HeadSquares))
def head_norm(found: HeadSquaresValue, *, reduce: Reduce = "all") -> dict[str, Defined]:
    """Root mean square of an attention's output, of all heads together or of each.

    Before heads are mixed by the output's projection: a head whose norm falls to nothing adds
    nothing. Of all heads together also ``HeadNorm.smallest``, ``HeadNorm.median`` and
    ``HeadNorm.largest``, of the heads' own. Where a module takes the softmax itself, it is of the
    product that the weights lead to; where that is not one that can be followed, there is no
    record.

    Formula: sqrt(mean o^2)
    """
    sizes = (found.squares / found.n).sqrt()
    parts = {"": sizes}
    if reduce == "all" and len(sizes):
        ordered, n = sizes.sort().values, len(sizes)
        median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
        together = (found.squares.mean() / found.n).sqrt()
        parts = {"": together, "smallest": ordered[0], "median": median, "largest": ordered[-1]}
    return {name: Defined.of_any(part, found.n) for name, part in parts.items()}


def _check(found: AttentionValue) -> None:
    if not found.n.any():
        raise NoValue("no query of the attention has a key that it may see")


def _mean(found: AttentionValue, which: int, reduce: Reduce) -> dict[str, Tensor]:
    """The mean over queries, and its standard error where only some of them were read."""
    _check(found)
    value, error = found.totals[which] / found.n, found.errors[which]
    if reduce == "all":
        # The error is at most the mean of the heads' errors, whatever their correlation.
        value, error = (x[found.n > 0].mean() for x in (value, error))
    return {"": value, "error": error} if found.is_sampled else {"": value}
