"""Quantities that are wrong, each in one way, beside the right one and its reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from taiyi_fx import input, output, quantity
from taiyi_fx.quantities import declare
from taiyi_fx.reductions import accumulated, as_matrix


@dataclass(frozen=True)
class Covariance:
    """The second moments of the features about zero, divided by the number of rows."""

    feature_axis: int | str = "auto"

    def measure(self, x):
        rows = self.rows(accumulated(x).double())
        return rows.new_full((), len(rows)), rows.T @ rows

    def rows(self, x):
        return as_matrix(x, self.feature_axis)

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]

    def scale(self, state, factor):
        return state[0], state[1] * factor**2

    def finish(self, state):
        return state[1] / state[0]


@dataclass(frozen=True)
class Scrambled(Covariance):
    """Takes channels by reinterpreting memory."""

    def rows(self, x):
        return x.transpose(0, 1).reshape(-1, x.shape[1]) if x.ndim == 4 else super().rows(x)


@quantity("right_size", covariance=input.reduce(Covariance))
def right_size(covariance):
    return torch.linalg.matrix_norm(covariance)


@quantity("scrambled_size", covariance=input.reduce(Scrambled))
def scrambled_size(covariance):
    return torch.linalg.matrix_norm(covariance)


def size(seen):
    rows = seen.rows("x").numpy()
    with np.errstate(all="ignore"):
        return np.linalg.norm(rows.T @ rows) / len(rows)


@quantity("right_condition", spectrum=input.spectrum)
def right_condition(spectrum):
    return spectrum.eigenvalues[0] / spectrum.eigenvalues[-1]


@quantity("epsilon_condition", spectrum=input.spectrum)
def epsilon_condition(spectrum):
    return spectrum.eigenvalues[0] / (spectrum.eigenvalues[-1] + 1e-8)


def condition(seen):
    rows = seen.rows("x").numpy()
    with np.errstate(all="ignore"):
        found = np.linalg.svd(rows - rows.mean(0), compute_uv=False)
        return (found[0] / found[-1]) ** 2 if len(rows) > 1 else np.nan


@dataclass(frozen=True)
class Mean:
    """The mean of all elements."""

    def measure(self, x):
        return x.new_full((), x.numel(), dtype=torch.float64), accumulated(x).double().sum()

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]

    def scale(self, state, factor):
        return state[0], state[1] * factor

    def finish(self, state):
        return state[1] / state[0]


@dataclass(frozen=True)
class MeanOfMeans:
    """Averages the means of its parts, however many elements each has."""

    def measure(self, x):
        return (accumulated(x).double().mean(),)

    def merge(self, a, b):
        return ((a[0] + b[0]) / 2,)

    def scale(self, state, factor):
        return (state[0] * factor,)

    def finish(self, state):
        return state[0]


@quantity("right_mean", mean=output.reduce(Mean))
def right_mean(mean):
    return mean


@quantity("mean_of_means", mean=output.reduce(MeanOfMeans))
def mean_of_means(mean):
    return mean


def mean(seen):
    return seen.y.mean()


def mean_floor(seen):
    return 1e-12 * np.nan_to_num(seen.y.abs().max().item())


@dataclass(frozen=True)
class Keeping(Mean):
    """Keeps the tensor until it is asked."""

    def measure(self, x):
        return (x,)

    def merge(self, a, b):
        return (torch.cat([a[0], b[0]]),)

    def scale(self, state, factor):
        return (state[0] * factor,)

    def finish(self, state):
        return state[0].double().mean()


@quantity("kept_mean", mean=output.reduce(Keeping))
def kept_mean(mean):
    return mean


@quantity("invented_mean", mean=output.reduce(Mean))
def invented_mean(mean):
    return mean.nan_to_num()


@dataclass(frozen=True)
class HalfSum(Mean):
    """Adds in the type that the tensor has."""

    def measure(self, x):
        return x.new_full((), x.numel(), dtype=torch.float64), x.sum().double()


@quantity("half_mean", mean=output.reduce(HalfSum))
def half_mean(mean):
    return mean


@dataclass(frozen=True)
class Nudging(Mean):
    """Changes the last bits of the tensor that it reads."""

    def measure(self, x):
        return super().measure(x.mul_(1 + 2**-22))


@quantity("nudged_mean", mean=output.reduce(Nudging))
def nudged_mean(mean):
    return mean


# Whoever draws from all declared quantities is to find none that changes the model.
declare._REGISTRY.pop(nudged_mean.name)
