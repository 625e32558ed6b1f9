"""Weights, each named parameter, and correlations."""

import numpy as np
import torch

from tests.quantities.references.elements import norm


def correlation(s):
    if s.before is None or s.before.g_y.shape != s.g_y.shape:
        return None
    a, b = (t.numpy().ravel() for t in (s.g_y, s.before.g_y))
    with np.errstate(all="ignore"):
        a, b = a / np.abs(a).max(), b / np.abs(b).max()
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def correlation_floor(s):
    return 10 * s.eps("g_y") * s.g_y.numel() ** 0.5


def parameter(s, found):
    """The parameters that the option names, or their gradients, as one vector."""
    name = s.options.get("param", "weight")
    names = list(found) if name == "all" else [name] if name in found else []
    return torch.cat([found[k].reshape(-1) for k in names]) if names else None


def weight_norm(s):
    return norm(parameter(s, s.parameters))


def weight_grad_norm(s):
    found = parameter(s, s.gradients)
    return None if found is None else norm(found)


def sign_flips(s):
    if s.before is None:
        return 0
    now, before = (np.sign(t.weight.numpy()) for t in (s, s.before))
    return int((now * before < 0).sum())


def of_each(compute, found="parameters"):
    """A number for each parameter, under its name; None of those that have none."""

    def reference(s):
        values = {name: compute(x, name, s) for name, x in getattr(s, found).items()}
        return {name: value for name, value in values.items() if value is not None}

    return reference


def update(s, name):
    if s is None or s.before is None:
        return None
    return s.parameters[name] - s.before.parameters[name]


def update_size(size):
    def of_update(x, name, s):
        u = update(s, name)
        return None if u is None else size(u)

    return of_update


def update_ratio(x, name, s):
    u = update(s, name)
    if u is None:
        return None
    size = norm(s.before.parameters[name])
    with np.errstate(all="ignore"):
        return None if size == 0 else norm(u) / size


def update_correlation(x, name, s):
    u, before = update(s, name), update(s.before, name)
    return None if before is None else cosine(u, before)


def update_floor(s):
    """A difference of parameters is rounded to float32 once more where it overflows or cancels."""
    return dict.fromkeys(s.parameters, 1e-05)


def gradient_correlation(g, name, s):
    if s.before is None or name not in s.before.gradients:
        return None
    return cosine(g, s.before.gradients[name])


def cosine(a, b):
    a, b = (t.numpy().ravel() for t in (a, b))
    with np.errstate(all="ignore"):
        a, b = a / np.abs(a).max(), b / np.abs(b).max()
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def unit_rate(dead):
    def rate(g, name, s):
        units = g.numpy().reshape(len(g), -1)
        if np.isnan(units).any():
            return np.nan
        share = (np.abs(units) > s.options.get("eps", 0.0)).any(1).mean()
        return 1 - share if dead else share

    return rate


def matrix_condition(p, name, s):
    matrix = p.numpy().reshape(len(p), -1)
    if not np.isfinite(matrix).all():
        return np.nan
    sigma = np.linalg.svd(matrix, compute_uv=False)
    zero = sigma[0] * matrix_rank_bound(matrix) * s.eps(name)
    return np.inf if sigma[-1] <= zero else sigma[0] / sigma[-1]


def matrix_rank_bound(matrix):
    return max(min(matrix.shape), max(matrix.shape) ** 0.5)


def matrix_condition_floor(s):
    """Rounding of the smallest singular value; nothing can be said where that is about zero."""

    def floor(p, name):
        matrix = p.numpy().reshape(len(p), -1)
        if not np.isfinite(matrix).all() or not matrix.any():
            return 0.0
        sigma = np.linalg.svd(matrix, compute_uv=False)
        share, size = sigma[-1] / sigma[0], max(matrix.shape) * s.eps(name)
        return np.inf if 1e-3 * size < share < 1e2 * size else 10 * size / max(share, 1e-150) ** 2

    return {name: floor(p, name) for name, p in s.parameters.items()}
