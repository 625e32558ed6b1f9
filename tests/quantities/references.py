"""What each quantity is, in float64, computed another way: one line each in `PROOFS`.

A quantity of a new file needs a reference here (a function of what was `Seen`) and its line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from taiyi_fx.testing import ModuleRecipe, Seen, TensorRecipe, tensors


@dataclass(frozen=True)
class Proof:
    """What a quantity is checked with.

    Attributes:
        reference: What is right.
        rel: The relative error allowed.
        floor: The absolute error allowed, where digits cancel.
        options: Options that are tried.
        tensors: What is put through, if not anything.
        modules: What it is put through, if not the modules of the kit.
        any_order: Whether parts can be merged in any order.
        not_compiled: Why it cannot be had in compiled code, if so.
    """

    reference: Callable[[Seen], Any]
    rel: float = 1e-5
    floor: Callable[[Seen], Any] | None = None
    options: Mapping[str, Any] | st.SearchStrategy[Mapping[str, Any]] | None = None
    tensors: st.SearchStrategy[TensorRecipe] | None = None
    modules: st.SearchStrategy[ModuleRecipe] | None = None
    any_order: bool = True
    not_compiled: str | None = None


def some(**choices):
    """Options: each left out, or one of those given."""
    optional = {name: st.sampled_from(values) for name, values in choices.items()}
    return st.fixed_dictionaries({}, optional=optional)


# --- sizes ---------------------------------------------------------------------------------------


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


# --- mean and spread -----------------------------------------------------------------------------


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
    """What adding numbers of both signs leaves in float64."""
    return 1e-13 * np.nan_to_num(largest(s.x))


def std(s):
    apart, _ = around_first(values(s))
    with np.errstate(all="ignore"):
        return shaped(np.sqrt((apart**2).sum(0) / np.float64(len(apart) - 1)), s)


# --- activity ------------------------------------------------------------------------------------


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


# --- spectra -------------------------------------------------------------------------------------


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
    return lambda s: eigenvalues(name)(s)[0]


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


# --- gradients and weights -----------------------------------------------------------------------


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


# --- BatchNorm -----------------------------------------------------------------------------------


def tid(of):
    def discrepancy(s):
        mu = s.buffers["running_mean"].numpy()
        sigma = np.sqrt(s.buffers["running_var"].numpy())
        with np.errstate(all="ignore"):
            return np.mean([_apart(of, t.rows("x").numpy(), mu, sigma, s) for t in s.window])

    return discrepancy


def _apart(of, rows, mu, sigma, s):
    apart, middle = around_first(rows)
    spread = np.sqrt((apart**2).sum(0) / np.float64(len(rows) - 1))
    away = middle - mu if of == "mean" else spread - sigma
    if s.options.get("variant") == "paper":
        return np.mean(np.abs(away) / spread)
    return np.linalg.norm(away) / (np.linalg.norm(sigma) + 1e-8)


# --- the tensors themselves ----------------------------------------------------------------------


def raw(name):
    def tensor(s):
        x, bound = getattr(s, name), s.options.get("max_elements")
        if bound is None or x.numel() <= bound:
            return x
        return x[: bound // x[0].numel()] if x[0].numel() <= bound else x.reshape(-1)[:bound]

    return tensor


# --- the table -----------------------------------------------------------------------------------

REDUCE = some(reduce=["all", "feature"], feature_axis=[1, -1])
CENTERED = some(centered=[True, False], feature_axis=[1, -1])
BOUND = some(max_elements=[1, 4, 7, 1000])
VARIANT = some(variant=["norm", "paper"])
RAW_GRADIENT = "gradients themselves are not kept in compiled code"


def conditioned(name, p=None, options=CENTERED):
    return Proof(condition(name, p), floor=condition_floor(name, p), options=options)


PROOFS = {
    "InputSndNorm": Proof(lambda s: norm(s.x)),
    "InputMean": Proof(mean, floor=mean_floor, options=REDUCE),
    "InputStd": Proof(std, options=REDUCE),
    "InputRMS": Proof(lambda s: rms(s.x)),
    "OutputRMS": Proof(lambda s: rms(s.y)),
    "OutputNorm": Proof(sample_norms, options=some(normalize=[True, False])),
    "OutputAbsMax": Proof(lambda s: largest(s.y), rel=0),
    "OutputActivationRate": Proof(activation_rate, options=some(reduce=["all", "feature"], eps=[0.0, 0.5])),
    "OutputDeathRate": Proof(death_rate, options=some(eps=[0.0, 0.5])),
    "LinearDeadNeuronNum": Proof(dead_share(-2.0), options=some(threshold=[-0.5, 0.5])),
    "DeadNeuronRatio": Proof(dead_share(0.0), options=some(threshold=[-0.5, 0.5])),
    "OutputGradSndNorm": Proof(lambda s: norm(s.g_y)),
    "OutputGradNorm": Proof(lambda s: norm(s.g_y)),
    "OutputGradRMS": Proof(lambda s: rms(s.g_y)),
    "OutputGradAbsMax": Proof(lambda s: largest(s.g_y), rel=0),
    "OutputGradCorrelation": Proof(correlation, floor=correlation_floor, any_order=False, not_compiled=RAW_GRADIENT),
    "InputCovMaxEig": Proof(max_eigenvalue("x"), options=CENTERED),
    "InputCovStableRank": Proof(stable_rank("x"), options=CENTERED),
    "InputCovCondition": conditioned("x", options=some(centered=[True, False], p=[0.0, 0.3, 0.99])),
    "InputCovCondition20": conditioned("x", 0.2),
    "InputCovCondition50": conditioned("x", 0.5),
    "InputCovCondition80": conditioned("x", 0.8),
    "OutputGradCovMaxEig": Proof(max_eigenvalue("g_y"), options=CENTERED),
    "OutputGradCovStableRank": Proof(stable_rank("g_y"), options=CENTERED),
    "OutputGradCovCondition": conditioned("g_y", options=some(centered=[True, False], p=[0.0, 0.3, 0.99])),
    "OutputGradCovCondition20": conditioned("g_y", 0.2),
    "OutputGradCovCondition50": conditioned("g_y", 0.5),
    "OutputGradCovCondition80": conditioned("g_y", 0.8),
    "ForwardInputEigOfCov": Proof(eigenvalues("x"), floor=spectrum_floor("x"), options=CENTERED),
    "BackwardOutputEigOfCov": Proof(eigenvalues("g_y"), floor=spectrum_floor("g_y"), options=CENTERED),
    "RankMe": Proof(rank_me, floor=rank_me_floor),
    "MeanTID": Proof(tid("mean"), options=VARIANT),
    "VarTID": Proof(tid("var"), options=VARIANT),
    "WeightNorm": Proof(weight_norm, options=some(param=["weight", "all"])),
    "WeightGradNorm": Proof(weight_grad_norm, options=some(param=["weight", "all"])),
    "WeightParamJump": Proof(sign_flips),
    "ForwardInput": Proof(raw("x"), rel=0, options=BOUND, any_order=False),
    "ForwardOutput": Proof(raw("y"), rel=0, options=BOUND, any_order=False),
    "BackwardInput": Proof(raw("g_x"), rel=0, options=BOUND, any_order=False, not_compiled=RAW_GRADIENT),
    "BackwardOutput": Proof(raw("g_y"), rel=0, options=BOUND, any_order=False, not_compiled=RAW_GRADIENT),
}  # fmt: skip

MILD = tensors(
    kinds=("full", "deficient", "constant", "sparse", "zero", "nan", "inf"),
    scales=(1.0, 1e3, 1e-3),
)
"""What today's reductions are exact on."""

SQUARES = "squares of 1e30 and 1e-30 leave the range of float32"
SPECTRA = f"{SQUARES}, and a mean a million times the spread is rounded in float32"
NOT_YET = {
    "InputSndNorm": SQUARES,
    "InputStd": SQUARES,
    "InputRMS": SQUARES,
    "OutputRMS": SQUARES,
    "OutputNorm": SQUARES,
    "OutputGradSndNorm": SQUARES,
    "OutputGradNorm": SQUARES,
    "OutputGradRMS": SQUARES,
    "WeightNorm": SQUARES,
    "WeightGradNorm": SQUARES,
    "MeanTID": SQUARES,
    "VarTID": SQUARES,
    "InputCovMaxEig": SPECTRA,
    "InputCovStableRank": SPECTRA,
    "InputCovCondition": SPECTRA,
    "InputCovCondition20": SPECTRA,
    "InputCovCondition50": SPECTRA,
    "InputCovCondition80": SPECTRA,
    "OutputGradCovMaxEig": SPECTRA,
    "OutputGradCovStableRank": SPECTRA,
    "OutputGradCovCondition": SPECTRA,
    "OutputGradCovCondition20": SPECTRA,
    "OutputGradCovCondition50": SPECTRA,
    "OutputGradCovCondition80": SPECTRA,
    "ForwardInputEigOfCov": SPECTRA,
    "BackwardOutputEigOfCov": SPECTRA,
}
"""Quantities that don't hold on every tensor yet, and why: they are checked on `MILD` ones.

Taking one out activates the strict form.
"""
