"""Independent float64 computations of the quantities, and a bench to run quantities on tensors."""

from __future__ import annotations

import warnings

import numpy as np
from torch import nn

import taiyi_fx


class LinearLike(nn.Linear):
    """A Linear by class whose output is its input: any tensor and gradient can be put through."""

    def forward(self, x):
        return x * 1


class ConvLike(nn.Conv2d):
    """A Conv2d by class whose output is its input."""

    def forward(self, x):
        return x * 1


def bench(entry, x, g=None, module=None, batches=1):
    """What an entry records for a module that is given ``x`` and gets ``g`` as its gradient."""
    module = module or (ConvLike(1, 1, 1) if x.ndim == 4 else LinearLike(1, 1))
    model = taiyi_fx.instrument(nn.Sequential(module), {"0": [entry]})
    gs = [None] * batches if g is None else g.chunk(batches)
    for part, gradient in zip(x.chunk(batches), gs, strict=True):
        if gradient is None:
            model(part)
        else:
            model(part.detach().requires_grad_()).backward(gradient)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        model.monitor.track(0)
    found = model.monitor.get_output().get("0", {})
    name = entry if isinstance(entry, str) else entry[0]
    return found.get(name, {}).get(0)


def double(x):
    return x.detach().double().numpy()


def matrix(x):
    """Rows by features: channels of a 4-D tensor, the last axis of others."""
    x = double(x)
    x = np.moveaxis(x, 1, -1) if x.ndim == 4 else x
    return x.reshape(-1, x.shape[-1])


def spectrum(x, centered=True):
    """Eigenvalues of the covariance, descending, from the singular values of the data."""
    rows = matrix(x)
    n, c = rows.shape
    if centered:
        rows = rows - rows.mean(0)
    values = np.zeros(c)
    found = np.linalg.svd(rows, compute_uv=False) ** 2
    values[: len(found)] = found
    with np.errstate(all="ignore"):
        return values / (n - 1 if centered else n)


def rank_size(rows):
    n, c = rows.shape
    return max(c, n**0.5)


def condition(x, k, eps=2.0**-23, centered=True):
    rows, values = matrix(x), spectrum(x, centered)
    if np.isnan(values).any():
        return np.nan
    zero = values[0] * rank_size(rows) * eps
    return np.inf if values[k] <= zero else values[0] / values[k]


def rank_me(y):
    sigma = np.linalg.svd(matrix(y), compute_uv=False)
    with np.errstate(all="ignore"):
        p = sigma / sigma.sum() + 1e-7
    return np.exp(-(p * np.log(p)).sum())


def tid(batches, mean, var, variant="norm"):
    """MeanTID and VarTID of channel-last row matrices."""
    mu, sigma = double(mean), np.sqrt(double(var))
    means = [rows.mean(0) for rows in batches]
    stds = [rows.std(0, ddof=1) for rows in batches]
    if variant == "paper":
        of_mean = np.mean([np.mean(np.abs(mu - m) / s) for m, s in zip(means, stds, strict=True)])
        return of_mean, np.mean([np.mean(np.abs(sigma - s) / s) for s in stds])
    size = np.linalg.norm(sigma) + 1e-8
    of_mean = np.mean([np.linalg.norm(m - mu) / size for m in means])
    return of_mean, np.mean([np.linalg.norm(s - sigma) / size for s in stds])
