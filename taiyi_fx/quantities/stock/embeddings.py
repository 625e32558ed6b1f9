"""Indices that an embedding is given."""

from __future__ import annotations

import torch
from torch import Tensor

from taiyi_fx.quantities.declare import quantity
from taiyi_fx.quantities.places import input
from taiyi_fx.reductions import Padding, PaddingValue, ratio


@quantity("PaddingRate", unit="share", accuracy="exact counts", found=input.reduce(Padding))
def padding_rate(found: PaddingValue) -> Tensor:
    """Mean share of padding in the samples of a batch that have any; 0 where none has.

    Padding is the index ``index``, 0 if nothing else is said, and samples lie on the first axis.
    The keys that an attention may see are the others: a mask that is inverted allows as many
    of them as this, which is `AttentionAllowed`.

    Formula: mean over samples with padding of (indices that are padding) / (all indices)
    """
    return torch.where(found.n > 0, ratio(found.shares, found.n), 0.0)
