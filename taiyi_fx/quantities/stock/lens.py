"""The logit lens: what each block would predict, through the model's own norm and head."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from taiyi_fx.quantities.declare import NoValue, quantity
from taiyi_fx.quantities.places import output
from taiyi_fx.reductions import Lens, LensValue


def lens_agreement(found: Sequence[LensValue]) -> dict[str, Tensor]:
    """The share of positions at which each block's most likely word is the last one's.

    Raises:
        NoValue: The blocks were read at different positions.
    """
    last = found[-1]
    if any(len(one.top) != len(last.top) for one in found):
        raise NoValue("its blocks were called for different numbers of positions")
    shares = [(one.top == last.top).double().mean() for one in found]
    broken = [one.entropy.isnan().any() | last.entropy.isnan().any() for one in found]
    return {
        "agreement": torch.stack(
            [torch.where(nan, torch.nan, share) for nan, share in zip(broken, shares, strict=True)]
        )
    }


@quantity(
    "LogitLens", unit="nats", accuracy="1e-5", found=output.reduce(Lens), over_all=lens_agreement
)
def logit_lens(found: LensValue) -> Tensor:
    """Mean entropy of what a block's output would predict, through the model's last norm and head.

    Ask for it of all blocks, on a schedule. The model's own series ``LogitLens.agreement``, of the
    module ``""``, comes with it: a vector over the blocks, of the share of positions at which each
    has the same most likely word as the last. What a forward does to logits behind its head (a cap,
    a scale) takes no part.

    Formula: mean over positions of -sum_w p_w log p_w, p = softmax(head(norm(y)))
    Source: nostalgebraist 2020, interpreting GPT: the logit lens; arXiv 2303.08112
    """
    return found.entropy.mean()
