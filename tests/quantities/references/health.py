"""NaN and Inf, ranges of formats, kurtosis, histograms, quantiles, the loss."""

import math

import numpy as np

from tests.quantities.references.elements import around_first


def non_finite(name):
    def counts(s):
        x = getattr(s, name).numpy()
        nan, inf = int(np.isnan(x).sum()), int(np.isinf(x).sum())
        return {"": nan + inf, "NaN": nan, "Inf": inf}

    return counts


LIMITS = {  # smallest normal and largest number
    "float16": (2.0**-14, 65504.0),
    "bfloat16": (2.0**-126, (2 - 2.0**-7) * 2.0**127),
    "float8_e4m3fn": (2.0**-6, 448.0),
    "float8_e5m2": (2.0**-14, 57344.0),
}


def out_of_range(name, which):
    def rate(s):
        x = np.abs(getattr(s, name).numpy())
        if np.isnan(x).any():
            return np.nan
        x = x[x != 0]
        if not len(x):
            return None
        low, high = LIMITS[s.options.get("format", "float16")]
        return np.float64((x < low if which == "below" else x > high).sum()) / len(x)

    return rate


def kurtosis(name):
    def of_all(s):
        x = getattr(s, name).numpy().ravel()
        apart, _ = around_first(x[:, None])
        with np.errstate(all="ignore"):
            apart = apart / np.abs(apart).max()
            return (apart**4).mean() / (apart**2).mean() ** 2

    return of_all


def histogram(name):
    """Counted one by one, with the exponent that Python's own frexp gives."""

    def counts(s):
        found = np.zeros(514, dtype=np.int64)
        for x in getattr(s, name).numpy().ravel().tolist():
            found[_bin(x)] += 1
        return found

    return counts


def _bin(x):
    if math.isnan(x):
        return 513
    if math.isinf(x):
        return 512 if x > 0 else 0
    if x == 0:
        return 256
    exponent = min(max(math.frexp(x)[1] - 1, -127), 127) + 127
    return 257 + exponent if x > 0 else 255 - exponent


def quantiles(name):
    def values(s):
        x = getattr(s, name).numpy().ravel()
        shares = s.options.get("q", (0.05, 0.25, 0.5, 0.75, 0.95))
        return {f"p{100 * q:g}": _quantile(np.sort(x), q * (len(x) - 1)) for q in shares}

    return values


def _quantile(ordered, at):
    low, high, share = ordered[math.floor(at)], ordered[math.ceil(at)], at - math.floor(at)
    if np.isnan(ordered).any():
        return np.nan
    with np.errstate(all="ignore"):
        return low if low == high else low * (1 - share) + high * share


def quantiles_floor(name):
    """From a histogram, a factor of two to the elements on either side."""

    def allowed(s):
        if s.options.get("exact"):
            return 0.0
        x = np.sort(getattr(s, name).numpy().ravel())
        shares = s.options.get("q", (0.05, 0.25, 0.5, 0.75, 0.95))
        floor = {}
        for q in shares:
            at = q * (len(x) - 1)
            ends = np.abs(np.nan_to_num(x[[math.floor(at), math.ceil(at)]], posinf=0, neginf=0))
            floor[f"p{100 * q:g}"] = 3 * ends.max() + 2.0**-126
        return floor

    return allowed


def or_none(name, reference):
    """A reference where there is such a tensor."""
    return lambda s: None if getattr(s, name) is None else reference(s)


def loss(s):
    return s.y.mean().item()
