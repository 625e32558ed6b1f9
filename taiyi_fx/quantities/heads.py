"""Attention: the functions that compute it, and the number of heads that a module says."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.torch_version import TorchVersion

from taiyi_fx.passes.ir import Function, FunctionGroup
from taiyi_fx.passes.structure import attribute_of

_NAMES = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads")
_SOFTMAX: tuple[Function, ...] = (F.softmax, torch.softmax, torch.Tensor.softmax)

_OF_A_KERNEL = "its kernel keeps the weights to itself: use F.scaled_dot_product_attention"
# What `torch.nn.attention.flex_attention.flex_attention` calls, which the modes of torch see. Older
# compilers have not been tried.
_IS_FLEX_SEEN = TorchVersion(torch.__version__) >= "2.13"
_FLEX: tuple[Function, ...] = (torch.ops.higher_order.flex_attention,) if _IS_FLEX_SEEN else ()
_OF_FLEX = {} if _IS_FLEX_SEEN else {"flex_attention": "it is read with torch 2.13 or newer"}


def heads_of(module: nn.Module) -> int | None:
    """The number of attention heads that a module, or an attention's configuration, says."""
    owners: list[Any] = [module]
    if "attention" in type(module).__name__.lower():
        owners.append(attribute_of(module, "config"))
    found = (attribute_of(owner, name) for owner in owners for name in _NAMES)
    return next((n for n in found if type(n) is int and n > 0), None)


def _attending(module: nn.Module | None) -> tuple[Function, ...]:
    """The functions whose calls in a module's forward are an attention.

    A softmax is one only where the module has heads: others choose classes or experts by it.
    """
    softmax = () if module is None or heads_of(module) is None else _SOFTMAX
    return F.scaled_dot_product_attention, *_FLEX, *softmax


ATTENTION = FunctionGroup(
    "attention",
    _attending,
    through=(F.multi_head_attention_forward,),
    modules=(nn.MultiheadAttention,),
    layers=(nn.Softmax,),
    of_scores=_SOFTMAX,
    unseen=dict.fromkeys(("flash_attn_func", "flash_attn_varlen_func"), _OF_A_KERNEL) | _OF_FLEX,
)
"""The functions of torch that attend, and a softmax in a module that has heads, or of scores."""
