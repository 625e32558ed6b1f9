"""Attention that sees what it should not, or lets through what it should not."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training

_LATE = "layers.2.attn"


def _mix(t: Training, mix: Callable[[Tensor, Tensor, Tensor, float], Tensor]) -> None:
    """Has a function of queries, keys, values and scale make the outputs of the heads."""

    def forward(self, old, x: Tensor) -> Tensor:
        n, s, c = x.shape
        q, k, v = self.qkv(x).view(n, s, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        return self.proj(mix(q, k, v, self.scale).transpose(1, 2).reshape(n, s, c))

    change_class(t.model.get_submodule(_LATE), forward)


@fault("gpt gpt-tied", f"{_LATE}.*", kinds="missing_mask")
def mask_of_minus_one(t: Training) -> None:
    """A mask that takes one from the logits of later keys, in the place of infinity."""

    def mix(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        logits = q @ k.mT * scale
        return (logits - torch.ones_like(logits).triu(1)).softmax(-1) @ v

    _mix(t, mix)


@fault("gpt", f"{_LATE}.*", kinds="heavy_dropout")
def weights_of_attention_dropped(t: Training) -> None:
    """A dropout within attention that is told the share that it keeps."""

    def mix(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, None, 0.95, is_causal=True, scale=scale)

    _mix(t, mix)


@fault("gpt", "layers.0.attn.*", kinds="odd_head")
def values_of_one_head_times_100(t: Training) -> None:
    """A head whose rows of the values were drawn without their scale."""
    weight = t.model.get_parameter("layers.0.attn.qkv.weight").data
    weight.view(3, 4, -1, weight.shape[1])[2, 1] *= 100


@fault("gpt-tied moe", f"{_LATE}.*", notes=True)
def projection_left_out(t: Training) -> None:
    """An attention that returns its heads as they are, and leaves its last layer uncalled."""

    def forward(self, old, x: Tensor) -> Tensor:
        n, s, c = x.shape
        q, k, v = self.qkv(x).view(n, s, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
        return mixed.transpose(1, 2).reshape(n, s, c)

    change_class(t.model.get_submodule(_LATE), forward)
