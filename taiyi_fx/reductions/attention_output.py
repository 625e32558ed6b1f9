"""The output of one call of attention by head, from the call and what its weights lead to."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from taiyi_fx.passes.ir import CallArguments
from taiyi_fx.passes.weighted import NOT_ONE
from taiyi_fx.reductions.attention_scores import KERNELS, logits_of, with_heads

SOFTMAXES = ("softmax", "Tensor.softmax")
"""The names of functions that give the weights alone."""


def outputs_of(call: CallArguments, result: Any, heads: int | None) -> Tensor:
    """The output of a call of attention, whose last axis but two is that of the heads.

    Args:
        call: The arguments of a function that computes attention, or of a softmax.
        result: The result of the first; of the second the product of its weights with values,
            with the axis of its heads, or None.
        heads: The number of heads, as far as the module says.

    Raises:
        ValueError: There is no such product, or its shape is not that of an attention's output.
    """
    if call.function in KERNELS:
        y = result[0] if isinstance(result, tuple) else result  # flex attention's, of three tensors
        return with_heads(y.detach())
    if result is None:
        raise ValueError(NOT_ONE)
    (product, axis), logits = result, logits_of(call, heads)
    y = product.detach() if product.ndim > 2 else with_heads(product.detach())
    y = _with_axis_of_heads(y, axis, logits.shape[-3])
    of_query = math.prod(logits.shape[:-1])  # the number of samples, heads and queries
    if y is None or logits.shape[-2] not in y.shape or y.numel() % max(1, of_query):
        raise ValueError(
            f"what the weights are multiplied into has the shape {tuple(product.shape)}, which is "
            f"not that of an attention's output with weights of shape {tuple(logits.shape)}"
        )
    return y


def _with_axis_of_heads(y: Tensor, axis: int, heads: int) -> Tensor | None:
    """The tensor with the heads on its last axis but two; None if it has not so many."""
    many = y.shape[axis]
    if many == heads:
        return y.movedim(axis, -3)
    if axis == -3 and y.ndim > 4 and y.shape[-4] * many == heads:
        return y.flatten(-4, -3)  # queries that share a head of keys have an axis of their own
    if many % heads:
        return None
    y = y.unflatten(axis, (-1, heads))  # samples and heads are one axis, or there is one head
    return y.movedim(axis if axis < 0 else axis + 1, -3)
