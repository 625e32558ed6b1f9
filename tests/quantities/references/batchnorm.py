"""The discrepancy of BatchNorm."""

import dataclasses

import numpy as np

from tests.quantities.references.elements import around_first


def tid(of):
    def discrepancy(s):
        mu = s.buffers["running_mean"].numpy()
        sigma = np.sqrt(s.buffers["running_var"].numpy())
        with np.errstate(all="ignore"):
            return np.mean(
                [
                    _apart(of, dataclasses.replace(t, x=x).rows("x").numpy(), mu, sigma, s)
                    for t in s.window
                    for x in t.x.split(t.sizes)
                ]
            )

    return discrepancy


def _apart(of, rows, mu, sigma, s):
    apart, middle = around_first(rows)
    spread = np.sqrt((apart**2).sum(0) / np.float64(len(rows) - 1))
    away = middle - mu if of == "mean" else spread - sigma
    if s.options.get("variant") == "paper":
        return np.mean(np.abs(away) / spread)
    return np.linalg.norm(away) / (np.linalg.norm(sigma) + 1e-8)
