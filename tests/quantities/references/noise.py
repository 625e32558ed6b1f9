"""Gradients sample by sample, by autograd on each sample alone."""

import copy

import numpy as np
import torch
from torch import nn


def sample_gradients(s):
    """Each sample's share in the gradient of the weight, by autograd on that sample alone."""
    layer = copy.deepcopy(s.module).double().requires_grad_()
    found = []
    for x, g in zip(s.x, s.g_y, strict=True):
        layer.zero_grad()
        x = x.long() if isinstance(layer, nn.Embedding) else x
        layer(x.unsqueeze(0)).backward(g.unsqueeze(0))
        found.append(layer.weight.grad.clone().reshape(-1))
    return torch.stack(found).numpy()


def per_sample_norms(s):
    norms = np.linalg.norm(sample_gradients(s), axis=1) * len(s.x)
    reduce = s.options.get("reduce", "none")
    return {"none": norms, "mean": norms.mean(), "max": norms.max()}[reduce]


def noise_parts(s):
    n, shares = len(s.x), sample_gradients(s)
    of_samples = n * (shares**2).sum()
    of_batch = (shares.sum(0) ** 2).sum()
    return n, of_samples, of_batch


def noise_scale(s):
    n, of_samples, of_batch = noise_parts(s)
    with np.errstate(all="ignore"):
        square_norm = (n * of_batch - of_samples) / np.float64(n - 1)
        trace = (of_samples - of_batch) / (1 - 1 / np.float64(n))
        return {"": trace / square_norm, "trace": trace, "square_norm": square_norm}


def noise_floor(s):
    """What is left of digits where noise and signal cancel."""
    n, of_samples, of_batch = noise_parts(s)
    if n == 1:
        return 0.0
    rounding = 1e-5 * (n * of_batch + of_samples)
    found = abs(noise_scale(s)["square_norm"])
    ratio = np.inf if found <= 1e2 * rounding else 10 * n * rounding / found
    return {"": ratio, "trace": rounding, "square_norm": rounding}


def agreement(s):
    g, own = _both(s)
    with np.errstate(all="ignore"):
        return g @ own / np.linalg.norm(g) / np.linalg.norm(own)


def excess(s):
    g, own = _both(s)
    with np.errstate(all="ignore"):
        return np.linalg.norm(g) / np.linalg.norm(own)


def agreement_floor(s):
    """What is left of digits where the shares of samples cancel."""
    size = np.linalg.norm(_both(s)[1])
    rounding = 1e-5 * np.abs(sample_gradients(s)).sum()
    return np.inf if size <= 1e2 * rounding else 10 * rounding / size


def _both(s):
    return s.gradients["weight"].double().reshape(-1).numpy(), sample_gradients(s).sum(0)
