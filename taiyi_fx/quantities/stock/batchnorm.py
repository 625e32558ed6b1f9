"""Distance of a BatchNorm's batches from the statistics that inference will use."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn.modules import batchnorm

from taiyi_fx.quantities.declare import quantity
from taiyi_fx.quantities.places import buffer, input
from taiyi_fx.reductions import BatchMoments, MomentsValue

_EPS = 1e-8


def _lacks_running_statistics(module: nn.Module) -> str | None:
    if not isinstance(module, batchnorm._BatchNorm):
        return "is not a BatchNorm"
    if module.running_mean is None or module.running_var is None:
        return "keeps no running statistics"
    return None


@quantity(
    "MeanTID",
    unit="ratio",
    accuracy="1e-5 of the size of mu_t",
    window=True,
    requires=_lacks_running_statistics,
    batches=input.reduce(BatchMoments),
    mean=buffer("running_mean").raw(max_elements=None),
    var=buffer("running_var").raw(max_elements=None),
)
def mean_tid(
    batches: MomentsValue, mean: Tensor, var: Tensor, *, variant: Literal["norm", "paper"] = "norm"
) -> Tensor:
    """Training-inference discrepancy of a batch norm's mean, averaged over the window's batches.

    With mu_t the channel means of the window's batch t and mu, sigma the running statistics when
    emitted. A step's micro-batches are batches of their own, as BatchNorm normalises each by
    itself. ``variant="paper"``: mean over channels of |mu - mu_t| / sigma_t, as in the authors'
    code. Reads every step, whatever the schedule of its values; with ``window="due"`` only due
    steps are read, and a value is of that step's batches.

    Formula: mean_t ||mu_t - mu||_2 / (||sigma||_2 + 1e-8)
    Source: arXiv 2210.05153
    """
    mean, var = mean.to(batches.mean.dtype), var.to(batches.mean.dtype)
    difference = batches.mean - mean
    if variant == "paper":
        return (difference.abs() / batches.std).mean()
    return (difference.norm(dim=-1) / (var.sqrt().norm() + _EPS)).mean()


@quantity(
    "VarTID",
    unit="ratio",
    accuracy="1e-5 of the size of sigma_t",
    window=True,
    requires=_lacks_running_statistics,
    batches=input.reduce(BatchMoments),
    var=buffer("running_var").raw(max_elements=None),
)
def var_tid(
    batches: MomentsValue, var: Tensor, *, variant: Literal["norm", "paper"] = "norm"
) -> Tensor:
    """Training-inference discrepancy of a batch norm's spread, averaged over the window's batches.

    With sigma_t the root of the unbiased channel variances of the window's batch t and sigma that
    of the running variance when emitted. A step's micro-batches are batches of their own.
    ``variant="paper"``: mean over channels of |sigma - sigma_t| / sigma_t. Reads every step,
    whatever the schedule of its values; with ``window="due"`` only due steps are read, and a value
    is of that step's batches.

    Formula: mean_t ||sigma_t - sigma||_2 / (||sigma||_2 + 1e-8)
    Source: arXiv 2210.05153
    """
    sigma = var.to(batches.std.dtype).sqrt()
    difference = batches.std - sigma
    if variant == "paper":
        return (difference.abs() / batches.std).mean()
    return (difference.norm(dim=-1) / (sigma.norm() + _EPS)).mean()
