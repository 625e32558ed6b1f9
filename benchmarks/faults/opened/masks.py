"""Attention: masks, heads and positions that are not those that were meant."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.edits import attend, attentions, join, past, split
from benchmarks.faults.training import Training

_ALL = "layers.*.attn*"
_LATE = "layers.2.attn"
_HIDDEN = float("-inf")


@fault("gpt gpt-tied", _ALL, kinds="missing_mask")
def mask_one_place_too_far(t: Training) -> None:
    """A triangle with the diagonal above its own: each token sees the one that it has to guess."""
    for name in attentions(t):
        attend(
            t, name, lambda x: x.masked_fill(~torch.ones_like(x).tril(1).bool(), -1e9).softmax(-1)
        )


@fault("gpt", _ALL, kinds="missing_mask")
def heads_viewed_without_a_transposition(t: Training) -> None:
    """Rows viewed as (heads, tokens, width) at once: each head gets other tokens."""

    def forward(self, old, x: Tensor) -> Tensor:
        n, s, c = x.shape
        q, k, v = (part.reshape(n, 4, s, c // 4) for part in self.qkv(x).chunk(3, -1))
        return join(self, F.scaled_dot_product_attention(q, k, v, is_causal=True))

    for name in attentions(t):
        change_class(t.model.get_submodule(name), forward)


@fault("gpt", _ALL, kinds="missing_mask")
def heads_put_together_without_a_transposition(t: Training) -> None:
    """Outputs of (heads, tokens, width) viewed as rows at once: each row is of other tokens."""

    def forward(self, old, x: Tensor) -> Tensor:
        q, k, v = split(self, x)
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).reshape(x.shape))

    for name in attentions(t):
        change_class(t.model.get_submodule(name), forward)
    t.steps = 200


@fault("gpt", f"{_LATE}*")
def keys_of_the_batch_before(t: Training) -> None:
    """A cache for generating that is filled in training, and read at the next batch."""
    kept: list[tuple[Tensor, Tensor]] = []

    def forward(self, old, x: Tensor) -> Tensor:
        q, k, v = split(self, x)
        kept.append((k.detach(), v.detach()))
        k, v = kept.pop(0) if len(kept) > 1 else kept[0]
        return join(self, F.scaled_dot_product_attention(q, k, v, is_causal=True))

    change_class(t.model.get_submodule(_LATE), forward)


@fault("gpt", "places")
def positions_of_the_samples(t: Training) -> None:
    """Positions that count samples, since the length was read of the wrong axis."""

    def forward(self, old, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(len(ids)))[:, None]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))

    change_class(t.model, forward)


@fault("gpt", _ALL)
def far_tokens_favoured(t: Training) -> None:
    """A bias for distances with the wrong sign: the first token gets all."""

    def weigh(logits: Tensor) -> Tensor:
        place = torch.arange(logits.shape[-1])
        far = 3.0 * (place[:, None] - place)
        return (logits + far).masked_fill(~past(logits), _HIDDEN).softmax(-1)

    for name in attentions(t):
        attend(t, name, weigh)


@fault("gpt", f"{_LATE}*", kinds="non_finite")
def rows_of_padding_that_see_nothing(t: Training) -> None:
    """A mask of padding along the queries in place of the keys, from step 25: NaN of nothing."""
    now = [0]
    t.before_step.append(lambda step: now.__setitem__(0, step))

    def weigh(logits: Tensor) -> Tensor:
        seen = past(logits)
        if now[0] >= 25:
            seen = seen & (torch.arange(logits.shape[-1]) < 24)[:, None]
        return logits.masked_fill(~seen, _HIDDEN).softmax(-1)

    attend(t, _LATE, weigh)


@fault("gpt", "places", WHOLE)
def positions_added_in_each_block_again(t: Training) -> None:
    """Positions that each block adds once more, ten times as large as the time before."""
    places = t.model.get_submodule("places")
    t.model.between = lambda i, x: x + 10.0**i * places(torch.arange(x.shape[1]))  # pyright: ignore
