"""Spectra, from the singular values of the data, and what is left of digits in them."""

import dataclasses

import numpy as np

from tests.quantities.references.elements import around_first


def eigenvalues(name):
    """Those of the covariance, descending, from the singular values of the data."""

    def spectrum(s):
        rows = s.rows(name).numpy()
        n, c = rows.shape
        centered = s.options.get("centered", True)
        if not np.isfinite(rows).all() or (centered and n == 1):
            return np.full(c, np.nan)
        apart = around_first(rows)[0] if centered else rows
        found = np.zeros(c)
        singular = np.linalg.svd(apart, compute_uv=False)
        found[: len(singular)] = singular**2
        return found / (n - 1 if centered else n)

    return spectrum


def rounding(name):
    """What the decomposition may leave of an eigenvalue, as a share of the largest."""
    return lambda s: 10 * max(s.rows(name).shape[1], s.rows(name).shape[0] ** 0.5) * s.eps(name)


def spectrum_floor(name):
    return lambda s: rounding(name)(s) * np.nan_to_num(eigenvalues(name)(s)[0])


def max_eigenvalue(name):
    def largest(s):
        is_known = len(s.rows(name)) > s.options.get("centered", True)
        return eigenvalues(name)(s)[0] if is_known else None

    return largest


def stable_rank(name):
    def rank(s):
        found = eigenvalues(name)(s)
        with np.errstate(all="ignore"):
            return found.sum() / found[0]

    return rank


def chosen(s, name, p):
    """The largest eigenvalue and that at a share p of them."""
    found = eigenvalues(name)(s)
    p = s.options.get("p", p)
    return found[0], found[-1 if p is None else int(p * len(found))]


def condition(name, p=None):
    def ratio(s):
        first, last = chosen(s, name, p)
        zero = first * max(s.rows(name).shape[1], s.rows(name).shape[0] ** 0.5) * s.eps(name)
        if np.isnan(first):
            return np.nan
        return np.inf if last <= zero else first / last

    return ratio


def condition_floor(name, p=None):
    """Rounding of the small eigenvalue; nothing can be said where that is about zero."""

    def floor(s):
        first, last = chosen(s, name, p)
        n, c = s.rows(name).shape
        if not first > 0:
            return 0.0
        share = last / first
        if 1e-2 * c * s.eps(name) < share < 30 * max(n, c) * s.eps(name):
            return np.inf
        return rounding(name)(s) / share**2 if share > 0 else 0.0

    return floor


def rank_me(s):
    rows = s.rows("y").numpy()
    n = len(rows)
    if not np.isfinite(rows).all() or not rows.any():
        return {"": np.nan, "N": n}
    sigma = np.linalg.svd(rows / np.abs(rows).max(), compute_uv=False)
    p = sigma / sigma.sum() + 1e-7
    return {"": np.exp(-(p * np.log(p)).sum()), "N": n}


def rank_me_floor(s):
    return {"": 1e3 * s.rows("y").shape[1] * s.eps("y")}


def participation_ratio(name):
    def ratio(s):
        found = eigenvalues(name)(s)
        with np.errstate(all="ignore"):
            found = found / found[0]
            return found.sum() ** 2 / (found**2).sum()

    return ratio


def output_variation(s):
    rows = s.rows("y").numpy()
    if not np.isfinite(rows).all() or len(rows) == 1:
        return np.nan
    largest = np.abs(rows).max()  # squares of small numbers are nothing
    with np.errstate(all="ignore"):
        apart, rows = around_first(rows)[0] / largest, rows / largest
        return np.square(apart).sum() / np.square(rows).sum()


def fisher(s):
    with np.errstate(all="ignore"):
        a, g = (condition(name)(uncentered(s)) for name in ("x", "g_y"))
        return a * g


def uncentered(s):
    return dataclasses.replace(s, options={**s.options, "centered": False})


def fisher_floor(s):
    with np.errstate(all="ignore"):
        of = {
            name: (condition(name)(uncentered(s)), condition_floor(name)(uncentered(s)))
            for name in ("x", "g_y")
        }
        (a, floor_a), (g, floor_g) = of["x"], of["g_y"]
        return np.nan_to_num(
            a * floor_g + g * floor_a + floor_a * floor_g, nan=np.inf, posinf=np.inf
        )
