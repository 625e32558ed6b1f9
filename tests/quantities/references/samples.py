"""Samples of an output's gradient, one after the other, in numpy."""

import numpy as np


def sample_rate(s):
    """The share of entries of axis 0 that are not all zero."""
    g = s.g_y.numpy()
    return np.float64(sum(bool((entry != 0).any()) for entry in g)) / len(g)


def sample_spread(s):
    """The share of the deviation that is between samples at the same place, call by call."""
    within = total = 0.0
    for part in s.g_y.double().split(s.sizes):
        g = np.moveaxis(part.numpy(), s.options.get("axis", 0), 0)
        g = g.reshape(*g.shape[:2], -1)
        if any(not g[:, place].any() for place in range(g.shape[1])):
            return None
        total += ((g - g.mean((0, 1))) ** 2).sum()
        within += ((g - g.mean(0)) ** 2).sum()
    return within / total if total else None


def padding_rate(s):
    """The mean share of zeros in the samples that have any."""
    shares = [float(np.mean(x == 0)) for x in s.x.double().numpy()]
    padded = [share for share in shares if share > 0]
    return sum(padded) / len(padded) if padded else 0.0
