"""Attention in float64, by the whole matrix of weights and torch's own softmax."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from taiyi_fx.testing import Seen


@dataclass
class Attended:
    """All weights of one call, in float64: samples, heads, queries, keys."""

    logits: Tensor
    allowed: Tensor
    weights: Tensor
    is_counted: Tensor
    positions: Tensor
    is_causal: bool
    is_flagged_causal: bool = False

    def mean(self, x: Tensor, reduce: str) -> Tensor:
        """The mean over queries with an allowed key of each head, or the mean of these."""
        kept = torch.where(self.is_counted, x, 0.0)
        each = kept.sum((0, 2)) / self.is_counted.sum((0, 2))
        return each if reduce == "head" else each.nanmean()


def attended(q, k, attn_mask=None, is_causal=False, scale=None) -> Attended:
    """The weights of a call of attention, with its own arguments."""
    q, k = q.detach().double(), k.detach().double()
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    queries, keys = q.shape[-2], k.shape[-2]
    logits = torch.einsum("bhid,bhjd->bhij", q, k)
    logits = logits * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    allowed = torch.ones_like(logits, dtype=torch.bool)
    i, j = torch.arange(queries)[:, None], torch.arange(keys)[None]
    if is_causal:
        allowed &= j <= i
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        allowed &= attn_mask
    elif attn_mask is not None:
        allowed &= attn_mask > -3e4
        logits = logits + attn_mask.double()
    return _attended(logits, allowed, is_causal)


def of_flex(q, k, score_mod=None, mask_mod=None, scale=None) -> Attended:
    """The weights of a call of flex attention, whose functions take a score at a time."""
    q, k = q.detach().double(), k.detach().double()
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    logits = torch.einsum("bhid,bhjd->bhij", q, k.expand(q.shape[0], -1, -1, -1))
    logits = logits * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    allowed = torch.ones_like(logits, dtype=torch.bool)
    for at in itertools.product(*map(range, logits.shape)):
        numbers = [torch.tensor(n) for n in at]
        if mask_mod is not None:
            allowed[at] = mask_mod(*numbers)
        if score_mod is not None:
            logits[at] = score_mod(logits[at].clone(), *numbers)
    return _attended(logits, allowed & (logits > -3e4), is_causal=False)


def of_logits(logits: Tensor) -> Attended:
    """The weights that a softmax of logits gives."""
    logits = logits.detach().double()
    return _attended(logits, logits > -3e4, is_causal=False)


def _attended(logits: Tensor, allowed: Tensor, is_causal: bool) -> Attended:
    queries, keys = logits.shape[-2:]
    i, j = torch.arange(queries)[:, None], torch.arange(keys)[None]
    weights = logits.masked_fill(~allowed, -torch.inf).softmax(-1).nan_to_num(0.0)
    last = torch.where(allowed, j, 0).amax(-1)
    own = i[:, 0] + (0 if is_causal else keys - queries)
    return Attended(
        logits,
        allowed,
        weights,
        allowed.any(-1),
        own.expand(last.shape) if is_causal or keys == queries else last,
        is_causal or not (allowed & (j > own[:, None])).any(),
        is_causal,
    )


def logit_max(a: Attended, reduce: str = "all", **_: Any) -> Tensor:
    """The largest logit of an allowed key."""
    kept = a.logits.masked_fill(~a.allowed, -torch.inf)
    return kept.amax((0, 2, 3)) if reduce == "head" else kept.max()


def entropy(a: Attended, reduce: str = "all", normalized: bool = False, **_: Any) -> Tensor:
    """The mean entropy of the weights of a query."""
    found = torch.special.entr(a.weights).sum(-1)
    if normalized:
        n = a.allowed.sum(-1)
        found = torch.where(n > 1, found / n.double().log(), 0.0)
    return a.mean(found, reduce)


def sink(a: Attended, reduce: str = "all", **_: Any) -> Tensor:
    """The mean weight of the first key."""
    return a.mean(a.weights[..., 0], reduce)


def distance(a: Attended, reduce: str = "all", **_: Any) -> Tensor | None:
    """The mean distance to keys, of causal attention."""
    away = a.positions[..., None] - torch.arange(a.weights.shape[-1])
    return a.mean((a.weights * away).sum(-1), reduce) if a.is_causal else None


def ahead(a: Attended, reduce: str = "all", **_: Any) -> Tensor | None:
    """The mean weight of keys that are later than the query, where it has a place among them."""
    queries, keys = a.weights.shape[-2:]
    later = torch.ones(queries, keys, dtype=torch.bool).triu(1)
    if a.is_flagged_causal:
        return a.mean(torch.zeros_like(a.weights[..., 0]), reduce)
    return a.mean((a.weights * later).sum(-1), reduce) if queries == keys else None


def allowed(a: Attended, reduce: str = "all", **_: Any) -> Tensor:
    """The mean share of keys that a query may see."""
    return a.mean(a.allowed.double().mean(-1).expand(a.weights.shape[:-1]), reduce)


HEADS, FEATURES = 2, 3


class SelfAttention(nn.Module):
    """Attention of an input that holds queries, keys and values, of two heads of three features."""

    def __init__(self, is_causal: bool = True, mask: str = "none") -> None:
        super().__init__()
        self.is_causal, self.mask, self.num_heads = is_causal, mask, HEADS

    def forward(self, x: Tensor) -> Tensor:
        """The output, of shape samples, heads, queries and features."""
        q, k, v = parts(x)
        return F.scaled_dot_product_attention(
            q, k, v, mask_of(self.mask, x), is_causal=self.is_causal
        )


class OwnSoftmax(SelfAttention):
    """The same, by a softmax of its own."""

    def forward(self, x: Tensor) -> Tensor:
        """The output, of shape samples, heads, queries and features."""
        q, k, v = parts(x)
        logits = q @ k.transpose(-1, -2) / math.sqrt(FEATURES)
        logits = logits + mask_of("causal" if self.is_causal else "bias", x)
        return F.softmax(logits, dim=-1) @ v


def parts(x: Tensor) -> tuple[Tensor, ...]:
    """Queries, keys and values in an input of shape samples, length, 3 x heads x features."""
    return tuple(p.unflatten(-1, (HEADS, FEATURES)).transpose(1, 2) for p in x.chunk(3, dim=-1))


def mask_of(name: str, x: Tensor) -> Tensor | None:
    """A mask of some kind, for an input."""
    n = x.shape[1]
    later = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
    if name == "none":
        return None
    if name == "bool":
        return ~later & (torch.arange(n, device=x.device) != 1)
    if name == "causal":
        return x.new_zeros(n, n).masked_fill(later, torch.finfo(x.dtype).min)
    return torch.linspace(-1, 1, n, dtype=x.dtype, device=x.device).expand(n, n)


def seen_at(s: Seen) -> Attended:
    """The weights of what went through one of these modules."""
    module = s.module
    assert isinstance(module, SelfAttention)
    q, k, _ = parts(s.x)
    if isinstance(module, OwnSoftmax):
        mask = mask_of("causal" if module.is_causal else "bias", s.x)
        return attended(q, k, mask)
    return attended(q, k, mask_of(module.mask, s.x), module.is_causal)


def of(function: Any) -> Any:
    """A reference for a quantity, of a function of weights."""
    return lambda s: function(seen_at(s), **s.options)


def head_norm(s: Seen) -> Tensor | dict[str, Tensor]:
    """Root mean square of the output, of each head, or of all and of three of the heads."""
    each = s.y.square().mean((0, 2, 3)).sqrt()
    if s.options.get("reduce") == "head":
        return each
    parts = {"smallest": each.min(), "median": each.quantile(0.5), "largest": each.max()}
    return {"": s.y.square().mean().sqrt(), **parts}


def logit_floor(s: Seen) -> float:
    """What rounding makes of a logit: products of either sign cancel."""
    q, k, _ = parts(s.x)
    return float(4 * s.eps("x") * FEATURES * (1 + q.abs().max() * k.abs().max()))


def weight_floor(s: Seen) -> float:
    """What that makes of weights, their entropies and distances."""
    n = s.x.shape[1]
    return 4 * logit_floor(s) * (1 + n + seen_at(s).logits.abs().max().item())
