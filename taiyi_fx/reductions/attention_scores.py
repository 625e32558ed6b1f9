"""The logits of one call of attention, a block of queries at a time, from the call's arguments."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from taiyi_fx.passes.ir import CallArguments
from taiyi_fx.reductions.rows import accumulated

FORBIDS = -3e4
"""What is added to a logit forbids a key from here down.

Masks add -inf or the smallest number of a format, of which float16's is -65504.
"""


@dataclass(frozen=True)
class Products:
    """Logits that `scaled_dot_product_attention` computes of queries, keys and a mask.

    Attributes:
        q: Queries, of shape samples (any number of axes), heads, queries and features.
        k: Keys; of fewer heads, each of which serves several heads of queries.
        mask: True where a key is allowed, or what is added to logits; None allows all.
        is_causal: True if query i sees keys up to i + shift.
        shift: The position of the first query among the keys.
        scale: The factor of the products.
    """

    q: Tensor
    k: Tensor
    mask: Tensor | None
    is_causal: bool
    shift: int
    scale: float

    @property
    def heads(self) -> int:
        """The number of heads."""
        return self.q.shape[-3]

    @property
    def queries(self) -> int:
        """The number of queries of each head and sample."""
        return self.q.shape[-2]

    @property
    def keys(self) -> int:
        """The number of keys."""
        return self.k.shape[-2]

    @property
    def batch(self) -> int:
        """The number of samples."""
        return math.prod(self.q.shape[:-3])

    @property
    def device(self) -> torch.device:
        """The device of its tensors."""
        return self.q.device

    def block(self, rows: Tensor, keys: int) -> tuple[Tensor, Tensor | None]:
        """Logits of some queries and the first keys, and True where a key is allowed.

        Logits are of shape samples (any number of axes), heads, queries and keys, which the second
        broadcasts to; None allows all.
        """
        q = accumulated(self.q.index_select(-2, rows)) * self.scale
        logits = _products(q, self.k[..., :keys, :])
        if self.is_causal:
            allowed = torch.arange(keys, device=rows.device) <= (rows + self.shift).unsqueeze(-1)
            return logits, allowed
        if self.mask is None:
            return logits, None
        mask = self.mask if self.mask.shape[-2] == 1 else self.mask.index_select(-2, rows)
        if mask.dtype == torch.bool:
            return logits, mask
        return logits + mask, ~(mask <= FORBIDS)


def _products(q: Tensor, k: Tensor) -> Tensor:
    """The products of queries and keys, where each head of keys serves as many of queries."""
    shared = q.shape[-3] // k.shape[-3]
    if shared == 1:
        return q @ k.mT
    # The queries of all heads that a head of keys serves are rows of one matrix: keys are not
    # repeated.
    grouped = q.unflatten(-3, (k.shape[-3], shared)).flatten(-3, -2)
    return (grouped @ k.mT).unflatten(-2, (shared, q.shape[-2])).flatten(-4, -3)


@dataclass(frozen=True)
class Given:
    """Logits that a module computed itself and passed to a softmax, mask and all.

    Attributes:
        logits: Of shape samples (any number of axes), heads, queries and keys.
    """

    logits: Tensor
    is_causal = False
    shift = 0

    @property
    def heads(self) -> int:
        """The number of heads."""
        return self.logits.shape[-3]

    @property
    def queries(self) -> int:
        """The number of queries of each head and sample."""
        return self.logits.shape[-2]

    @property
    def keys(self) -> int:
        """The number of keys."""
        return self.logits.shape[-1]

    @property
    def batch(self) -> int:
        """The number of samples."""
        return math.prod(self.logits.shape[:-3])

    @property
    def device(self) -> torch.device:
        """The device of its tensors."""
        return self.logits.device

    def block(self, rows: Tensor, keys: int) -> tuple[Tensor, Tensor | None]:
        """Logits of some queries, and True where a key is allowed."""
        logits = accumulated(self.logits.index_select(-2, rows))
        return logits, ~(logits <= FORBIDS)


Scores: TypeAlias = Products | Given
"""The logits of a call."""


def scores_of(call: CallArguments, heads: int | None) -> Scores:
    """The logits of a call of attention.

    Args:
        call: The arguments of `scaled_dot_product_attention`, or of a softmax.
        heads: The number of heads, as far as the module says.

    Raises:
        ValueError: It is a softmax of something else, or its heads cannot be told.
        TypeError: Its tensors are nested, or spread over several ranks.
    """
    for x in (*call.args, *call.kwargs.values()):
        if isinstance(x, Tensor) and (x.is_nested or hasattr(x, "placements")):
            kind = "nested" if x.is_nested else "spread over several ranks (DTensor)"
            raise TypeError(f"attention of tensors that are {kind} is not read")
    rule = _scaled_dot_product if call.function in DOT_PRODUCTS else _softmax
    return rule(heads, *call.args, **call.kwargs)


DOT_PRODUCTS = ("scaled_dot_product_attention",)
"""The names of functions that compute an attention's logits themselves."""


def _scaled_dot_product(  # noqa: PLR0913 - torch's own arguments
    heads: int | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Products:
    q, k = (_with_heads(x.detach()) for x in (query, key))
    variant = getattr(attn_mask, "variant", None)  # a mask of torch.nn.attention.bias
    shift = k.shape[-2] - q.shape[-2] if getattr(variant, "name", "") == "LOWER_RIGHT" else 0
    mask = None if variant is not None or attn_mask is None else attn_mask.detach()
    if mask is not None:
        mask = _with_heads(mask) if query.ndim == 3 and mask.ndim == 3 else torch.atleast_2d(mask)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return Products(q, accumulated(k), mask, is_causal or variant is not None, shift, factor)


def _with_heads(x: Tensor) -> Tensor:
    """A tensor with an axis of heads: of three axes, the first is that of samples."""
    return x.unsqueeze(-3) if x.ndim <= 3 else x


def _softmax(
    heads: int | None,
    input: Tensor,  # noqa: A002 - torch's name for it
    dim: int | None = None,
    *others: Any,
    **named: Any,
) -> Given:
    shape, logits = tuple(input.shape), input.detach()
    if dim is None or dim % input.ndim != input.ndim - 1 or input.ndim < 3:
        raise ValueError(f"a softmax over axis {dim} of a tensor of shape {shape} is no attention")
    if input.ndim > 3:
        return Given(logits)
    if heads is None or shape[0] % heads:
        raise ValueError(
            f"the heads of an attention with logits of shape {shape} cannot be told: the module "
            f"says that it has {heads}"
        )
    return Given(logits.unflatten(0, (-1, heads)))


class Sample(NamedTuple):
    """The queries that are read.

    Attributes:
        rows: Their numbers, ascending, on the host.
        first: All queries before this one are among them; the others were drawn.
        factor: The number of queries that each drawn one stands for.
    """

    rows: Tensor
    first: int
    factor: float


def sampled(queries: int, at_most: int | None) -> Sample:
    """The queries to read: all, or the first ones and one of each equal part of the others.

    The first queries of causal attention have few keys, and weights unlike those of all others: a
    quarter of the sample goes to them, so that their share is right.
    """
    if at_most is None or at_most >= queries:
        return Sample(torch.arange(queries), queries, 1.0)
    first = at_most // 4
    drawn = at_most - first
    each = (queries - first) / drawn
    # Drawn from a generator of its own: the training's random numbers stay as they are.
    draws = torch.rand(drawn, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    starts = torch.arange(drawn, dtype=torch.float64)
    later = first + ((starts + draws) * each).long().clamp_(max=queries - first - 1)
    return Sample(torch.cat([torch.arange(first), later]), first, each)


def blocks(scores: Scores, rows: Tensor) -> Iterator[tuple[Tensor, int]]:
    """The queries in blocks of bounded memory, each with the number of keys that it may see.

    Args:
        scores: The logits.
        rows: The numbers of the queries that are read, on the host.
    """
    size = _MOST if scores.device.type == "cpu" else _MOST_ON_DEVICE
    of_query = scores.batch * scores.heads * scores.keys
    for part in rows.split(max(1, size // of_query)) if of_query and len(rows) else ():
        seen = int(part[-1]) + 1 + scores.shift if scores.is_causal else scores.keys
        yield part.to(scores.device), min(max(seen, 1), scores.keys)


_MOST, _MOST_ON_DEVICE = 2**19, 2**24
"""The most logits of a block, unless those of one query are more."""
