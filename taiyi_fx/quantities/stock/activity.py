"""Shares of features that are active, and that are dead."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from taiyi_fx.quantities.declare import Defined, quantity
from taiyi_fx.quantities.places import output
from taiyi_fx.reductions import ActivityValue, ratio


@quantity(
    "OutputActivationRate",
    unit="share",
    accuracy="exact counts",
    health="lasting",
    activity=output.activity,
)
def output_activation_rate(
    activity: ActivityValue, *, reduce: Literal["all", "feature"] = "all"
) -> Defined:
    """Share of rows in which a feature is active: larger than ``eps`` in absolute value.

    The mean over the features, or with ``reduce="feature"`` one number for each.

    Formula: mean over features of (rows with |y| > eps) / N
    """
    rate = activity.rate if reduce == "feature" else activity.rate.mean()
    return Defined.of_any(rate, activity.n, "rows")


@quantity(
    "OutputDeathRate",
    unit="share",
    accuracy="exact counts",
    health="share_of_trouble",
    activity=output.activity,
)
def output_death_rate(activity: ActivityValue) -> Defined:
    """Share of features that are active, |y| > ``eps``, in no row.

    Formula: (features without an active row) / C
    """
    share = ratio((activity.rate == 0).sum(), activity.rate.numel())
    share = torch.where(activity.rate.isnan().any(), torch.nan, share)
    return Defined.of_any(share, activity.n, "rows")


@quantity(
    "LinearDeadNeuronNum",
    unit="share",
    accuracy="exact counts",
    highest=output.feature_max,
    n=output.count,
)
def linear_dead_neuron_num(highest: Tensor, n: Tensor, *, threshold: float = -2.0) -> Defined:
    """Share of features whose output is at most the threshold in every row.

    Formula: (features with max over rows <= threshold) / C
    """
    return _dead_share(highest, n, threshold)


@quantity(
    "DeadNeuronRatio",
    unit="share",
    accuracy="exact counts",
    health="share_of_trouble",
    highest=output.feature_max,
    n=output.count,
)
def dead_neuron_ratio(highest: Tensor, n: Tensor, *, threshold: float = 0.0) -> Defined:
    """Share of features whose output is at most zero in every row: for ReLU-like activations.

    Formula: (features with max over rows <= threshold) / C
    """
    return _dead_share(highest, n, threshold)


def _dead_share(highest: Tensor, n: Tensor, threshold: float) -> Defined:
    share = ratio((highest <= threshold).sum(), highest.numel())
    return Defined.of_any(torch.where(highest.isnan().any(), torch.nan, share), n)
