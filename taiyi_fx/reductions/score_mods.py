"""The functions by which flex attention changes scores and forbids keys, for some queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_AXES = range(4)
"""Samples, heads, queries and keys: both functions take the number of each."""


@dataclass(frozen=True)
class ScoreMods:
    """The functions of a call of flex attention, with the tensors that they close over.

    Attributes:
        score_mod: A score, and the numbers of its sample, head, query and key, to a score.
        mask_mod: These four numbers to True where the key is allowed.
        score_tensors: Further arguments of the first.
        mask_tensors: Further arguments of the second.
    """

    score_mod: Callable[..., Tensor]
    mask_mod: Callable[..., Tensor]
    score_tensors: tuple[Tensor, ...] = ()
    mask_tensors: tuple[Tensor, ...] = ()

    def apply(self, scores: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The changed scores of some queries, and True where a key is allowed.

        Args:
            scores: Scaled products, of shape samples, heads, queries and keys.
            rows: The numbers of the queries.
        """
        # Imported when a call is read: torch's compiler is loaded by then, and takes long to.
        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

        of_axes = [torch.arange(n, device=scores.device) for n in scores.shape]
        of_axes[2] = rows
        # Each sees numbers without axes, as torch's own eager way has it; a tensor that is indexed
        # by them is not to ask for their values.
        with TransformGetItemToIndex():
            allowed = _over_axes(self.mask_mod, False, len(self.mask_tensors))
            changed = _over_axes(self.score_mod, True, len(self.score_tensors))
            return (
                changed(scores, *of_axes, *self.score_tensors),
                allowed(*of_axes, *self.mask_tensors),
            )


def _over_axes(function: Callable[..., Tensor], has_score: bool, others: int) -> Any:
    """A function of one score as one of all scores."""
    for axis in reversed(_AXES):
        numbers = [0 if axis == i else None for i in _AXES]
        in_dims = (*([0] * has_score), *numbers, *([None] * others))
        function = torch.vmap(function, in_dims=in_dims)
    return function
