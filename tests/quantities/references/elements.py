"""Sizes, means, spreads, activity, the tensors themselves."""

import numpy as np


def norm(x):
    return np.linalg.norm(x.numpy().ravel())


def rms(x):
    return norm(x) / np.sqrt(x.numel())


def largest(x):
    return np.abs(x.numpy()).max()


def sample_norms(s):
    samples = s.y.numpy().reshape(len(s.y), -1)
    norms = np.linalg.norm(samples, axis=1)
    return np.mean(norms / np.sqrt(samples.shape[1]) if s.options.get("normalize") else norms)


def values(s):
    """The input's elements as one column, or with ``reduce="feature"`` one a feature."""
    rows = s.rows("x").numpy()
    return rows if s.options.get("reduce") == "feature" else rows.reshape(-1, 1)


def shaped(found, s):
    return found if s.options.get("reduce") == "feature" else found[0]


def mean(s):
    return shaped(around_first(values(s))[1], s)


def around_first(rows):
    """Deviations from the mean, and the mean: exact where all rows are equal."""
    with np.errstate(all="ignore"):
        apart = rows - rows[:1]
        return apart - apart.mean(0), rows[0] + apart.mean(0)


def mean_floor(s):
    """What adding numbers of both signs leaves: a tenth of what is promised."""
    with np.errstate(all="ignore"):
        return 1e-6 * np.nan_to_num(np.abs(s.x.numpy()).mean())


def std(s):
    apart, _ = around_first(values(s))
    if len(apart) < 2:
        return None
    return shaped(np.sqrt((apart**2).sum(0) / np.float64(len(apart) - 1)), s)


def activation_rate(s):
    rows = s.rows("y").numpy()
    rate = (np.abs(rows) > s.options.get("eps", 1e-8)).mean(0)
    rate[np.isnan(rows).any(0)] = np.nan
    return rate if s.options.get("reduce") == "feature" else rate.mean()


def death_rate(s):
    rows = s.rows("y").numpy()
    is_active = (np.abs(rows) > s.options.get("eps", 1e-8)).any(0)
    return np.nan if np.isnan(rows).any() else np.mean(~is_active)


def dead_share(default):
    def share(s):
        rows = s.rows("y").numpy()
        is_dead = (rows <= s.options.get("threshold", default)).all(0)
        return np.nan if np.isnan(rows).any() else is_dead.mean()

    return share


def raw(name):
    def tensor(s):
        x, bound = getattr(s, name), s.options.get("max_elements")
        if bound is None or x.numel() <= bound:
            return x
        return x[: bound // x[0].numel()] if x[0].numel() <= bound else x.reshape(-1)[:bound]

    return tensor


def outliers(s):
    """Features far beyond the usual size, and how far the largest is."""
    rows = s.rows("y").numpy()
    with np.errstate(all="ignore"):
        size = np.array([np.linalg.norm(column) for column in rows.T]) / np.sqrt(len(rows))
        usual = np.median(size)
        many = float((size > s.options.get("factor", 6.0) * usual).sum())
        return {"": many if np.isfinite(size).all() else np.nan, "largest": size.max() / usual}


def outliers_floor(s):
    """Nothing can be said of a feature that is just as large as the bound."""
    rows = s.rows("y").numpy()
    with np.errstate(all="ignore"):
        size = np.array([np.linalg.norm(column) for column in rows.T])
        bound = s.options.get("factor", 6.0) * np.median(size)
        is_near = (np.abs(size - bound) <= 1e-5 * bound) & (size > 0)
    return {"": np.inf if is_near.any() else 0.0, "largest": 0.0}
