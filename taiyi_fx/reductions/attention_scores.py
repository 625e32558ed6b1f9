"""The logits of one call of attention, a block of queries at a time, from the call's arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from taiyi_fx.passes.ir import CallArguments
from taiyi_fx.reductions.rows import accumulated, on_device
from taiyi_fx.reductions.score_mods import ScoreMods

FORBIDS = -3e4
"""What is added to a logit forbids a key from here down.

Masks add -inf or the smallest number of a format, of which float16's is -65504.
"""


@dataclass(frozen=True)
class Products:
    """Logits that an attention's kernel computes of queries, keys and a mask.

    Attributes:
        q: Queries, of shape samples (any number of axes), heads, queries and features.
        k: Keys; of fewer heads, each of which serves several heads of queries.
        mask: True where a key is allowed, or what is added to logits; None allows all.
        is_causal: True if query i sees keys up to i + shift.
        shift: The position of the first query among the keys.
        scale: The factor of the products; a tensor of one number where compiled code made it.
        mods: What flex attention makes of the scaled products, in place of a mask.
    """

    q: Tensor
    k: Tensor
    mask: Tensor | None
    is_causal: bool
    shift: int
    scale: float | Tensor
    mods: ScoreMods | None = None

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

    def block(self, at: Block) -> tuple[Tensor, Tensor | None]:
        """Logits of some queries and the first keys, and True where a key is allowed.

        Logits are of shape samples (any number of axes), heads, queries and keys, which the second
        broadcasts to; None allows all.
        """
        q = accumulated(at.of(self.q)) * self.scale
        logits = _products(q, self.k[..., : at.keys, :])
        if self.mods is not None:
            logits, allowed = self.mods.apply(logits, at.rows)
            return logits, allowed & ~(logits <= FORBIDS)
        if self.is_causal:
            every = torch.arange(at.keys, device=at.rows.device)
            return logits, every <= (at.rows + self.shift).unsqueeze(-1)
        if self.mask is None:
            return logits, None
        mask = self.mask if self.mask.shape[-2] == 1 else at.of(self.mask)
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

    def block(self, at: Block) -> tuple[Tensor, Tensor | None]:
        """Logits of some queries, and True where a key is allowed."""
        logits = accumulated(at.of(self.logits))
        return logits, ~(logits <= FORBIDS)


Scores: TypeAlias = Products | Given
"""The logits of a call."""


def scores_of(call: CallArguments, heads: int | None) -> Scores:
    """The logits of a call of attention.

    Args:
        call: The arguments of a function that computes attention, or of a softmax.
        heads: The number of heads, as far as the module says.

    Raises:
        ValueError: It is a softmax of something else, or its heads are not known.
        TypeError: Its tensors are nested, or spread over several ranks.
    """
    for x in (*call.args, *call.kwargs.values()):
        if hasattr(x, "variant"):  # a causal bias, which in torch 2.6 answers nothing else
            continue
        if isinstance(x, Tensor) and (x.is_nested or hasattr(x, "placements")):
            kind = "nested" if x.is_nested else "spread over several ranks (DTensor)"
            raise TypeError(f"attention of tensors that are {kind} is not read")
    rule = _RULES.get(call.function, _softmax)
    return rule(heads, *call.args, **call.kwargs)


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
    q, k = (with_heads(x.detach()) for x in (query, key))
    variant = getattr(attn_mask, "variant", None)  # a mask of torch.nn.attention.bias
    shift = k.shape[-2] - q.shape[-2] if getattr(variant, "name", "") == "LOWER_RIGHT" else 0
    mask = None if variant is not None or attn_mask is None else attn_mask.detach()
    if mask is not None:
        mask = with_heads(mask) if query.ndim == 3 and mask.ndim == 3 else torch.atleast_2d(mask)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return Products(q, accumulated(k), mask, is_causal or variant is not None, shift, factor)


def _flex(  # noqa: PLR0913 - torch's own arguments
    heads: int | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float | Tensor,
    kernel_options: dict[str, Any],
    score_mod_other_buffers: tuple[Tensor, ...] = (),
    mask_mod_other_buffers: tuple[Tensor, ...] = (),
) -> Products:
    mods = ScoreMods(score_mod, block_mask[-1], score_mod_other_buffers, mask_mod_other_buffers)
    return Products(query.detach(), accumulated(key.detach()), None, False, 0, scale, mods)


_RULES = {"scaled_dot_product_attention": _scaled_dot_product, "flex_attention": _flex}
KERNELS = tuple(_RULES)
"""The names of functions that compute an attention's logits themselves."""


def with_heads(x: Tensor) -> Tensor:
    """A tensor with an axis of heads: of three axes, the first is that of samples."""
    return x.unsqueeze(-3) if x.ndim <= 3 else x


def _softmax(heads: int | None, *args: Any, **kwargs: Any) -> Given:
    return Given(_logits(heads, *args, **kwargs))


def logits_of(call: CallArguments, heads: int | None) -> Tensor:
    """The argument of a softmax, of shape samples (any number of axes), heads, queries and keys.

    Raises:
        ValueError: It is a softmax of something else, or its heads are not known.
    """
    return _logits(heads, *call.args, **call.kwargs)


def _logits(
    heads: int | None,
    input: Tensor,  # noqa: A002 - torch's name for it
    dim: int | None = None,
    *others: Any,
    **named: Any,
) -> Tensor:
    shape, logits = tuple(input.shape), input.detach()
    least = 2 if heads is None else 3
    if dim is None or input.ndim < least or dim % input.ndim != input.ndim - 1:
        raise ValueError(f"a softmax over axis {dim} of a tensor of shape {shape} is no attention")
    if input.ndim > 4 and heads is not None and shape[-4] * shape[-3] == heads:
        return logits.flatten(-4, -3)  # queries that share a head of keys have an axis of their own
    if input.ndim > 3:
        return logits
    if heads is None:
        # A module that does not say how many heads it has is taken to have one.
        return logits.unsqueeze(-3)
    if shape[0] % heads:
        raise ValueError(
            f"the heads of an attention with logits of shape {shape} are not known: the module "
            f"says that it has {heads}"
        )
    return logits.unflatten(0, (-1, heads))


class Sample(NamedTuple):
    """The queries that are read.

    Attributes:
        rows: Their numbers, ascending, on the host.
        first: All queries before this one are among them; the others were drawn.
        factor: The number of queries that each drawn one stands for.
    """

    rows: Sequence[int]
    first: int
    factor: float


def sampled(queries: int, at_most: int | None) -> Sample:
    """The queries to read: all, or the first ones and some of the others, drawn at random.

    The first queries of causal attention have few keys, and weights unlike those of all others: a
    quarter of the sample goes to them, so that their share is right.
    """
    if at_most is None or at_most >= queries:
        return Sample(range(queries), queries, 1.0)
    first = at_most // 4
    drawn = at_most - first
    # Drawn from a generator of its own: the training's random numbers stay as they are.
    later = sorted(Random(_SEED).sample(range(first, queries), drawn))
    return Sample([*range(first), *later], first, (queries - first) / drawn)


class Block(NamedTuple):
    """Some of the queries that are read.

    Attributes:
        rows: Their numbers, on the device.
        span: The same as a slice, if they follow each other.
        keys: The number of keys that the last of them may see.
    """

    rows: Tensor
    span: slice | None
    keys: int

    def of(self, x: Tensor) -> Tensor:
        """The part of a tensor of all queries, on its last axis but one."""
        return x.index_select(-2, self.rows) if self.span is None else x[..., self.span, :]


def blocks(scores: Scores, sample: Sample) -> Iterator[Block]:
    """The queries that are read, in blocks of bounded memory."""
    size = _MOST if scores.device.type == "cpu" else _MOST_ON_DEVICE
    of_query = scores.batch * scores.heads * scores.keys
    step = max(1, size // max(1, of_query))
    for start in range(0, len(sample.rows), step) if of_query else ():
        part = sample.rows[start : start + step]
        last = part[-1]
        seen = last + 1 + scores.shift if scores.is_causal else scores.keys
        span = slice(part.start, part.stop) if isinstance(part, range) else None
        if span:
            rows = torch.arange(part[0], last + 1, device=scores.device)
        else:
            rows = on_device(list(part), scores.device, torch.int64)
        yield Block(rows, span, min(max(seen, 1), scores.keys))


_SEED = 0
_MOST, _MOST_ON_DEVICE = 2**19, 2**24
"""The most logits of a block, unless those of one query are more."""
