"""Places at a module that quantities read, and the stock of reductions there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from taiyi_fx import reductions
from taiyi_fx.passes.ir import (
    CallReduction,
    FunctionGroup,
    PairReduction,
    Port,
    Reduction,
)
from taiyi_fx.quantities.source import Source


@dataclass(frozen=True)
class Place:
    """A side of a module whose tensor a quantity reads, with the stock of reductions."""

    port: Port
    name: str | None = None

    def __getattr__(self, name: str) -> Any:
        stock = [k for k, v in vars(Place).items() if isinstance(v, property)]
        raise AttributeError(f"no reduction is named {name!r}; known are {', '.join(stock)}")

    def reduce(self, reduction: Callable[..., Reduction]) -> Source:
        """A source that applies a reduction of your own.

        Args:
            reduction: A class with the methods of `taiyi_fx.Reduction`, a frozen dataclass
                whose fields are options of the quantity; or a function that returns one.

        Raises:
            TypeError: It is an instance, or a class without one of the methods.
        """
        check_reduction(reduction, Reduction)
        return Source(self.port, reduction, name=self.name)

    def reduce_as(self, source: Source) -> Source:
        """Another place's source, at this place."""
        return dataclasses.replace(source, port=self.port, name=self.name)

    @property
    def norm(self) -> Source:
        """Euclidean norm of all elements, a scalar."""
        return self.reduce(reductions.Norm)

    @property
    def square_sum(self) -> Source:
        """Sum of squares of all elements, a scalar."""
        return self.reduce(reductions.SquareSum)

    @property
    def count(self) -> Source:
        """Number of elements, an integer scalar."""
        return self.reduce(reductions.Count)

    @property
    def abs_max(self) -> Source:
        """Largest absolute value of all elements, a scalar."""
        return self.reduce(reductions.AbsMax)

    @property
    def non_finites(self) -> Source:
        """Number of elements that are NaN, and number of infinite ones."""
        return self.reduce(reductions.NonFinites)

    @property
    def scalar(self) -> Source:
        """Number of tensors, of one element each, and their sum."""
        return self.reduce(reductions.Scalar)

    @property
    def sample_norms(self) -> Source:
        """Number of samples (axis 0) and the sum of their Euclidean norms."""
        return self.reduce(reductions.SampleNorms)

    @property
    def activity(self) -> Source:
        """Share of rows in which each feature is larger than ``eps`` in absolute value."""
        return self.reduce(reductions.Activity)

    @property
    def moments(self) -> Source:
        """Count, mean and squared deviations, of all elements or per feature."""
        return self.reduce(reductions.Moments)

    @property
    def fourth_moment(self) -> Source:
        """Number of elements and their kurtosis."""
        return self.reduce(reductions.FourthMoment)

    @property
    def histogram(self) -> Source:
        """Counts by sign and power of two, a vector of 514 integers.

        Pages and dashboards show it as a histogram where the quantity declares
        ``unit="elements by power of two"``.
        """
        return self.reduce(reductions.Histogram)

    @property
    def quantiles(self) -> Source:
        """Values below which given shares of the elements lie."""
        return self.reduce(reductions.Quantiles)

    @property
    def out_of_range(self) -> Source:
        """Number of non-zero elements that are too small, and too large, for a format."""
        return self.reduce(reductions.OutOfRange)

    @property
    def spectrum(self) -> Source:
        """All eigenvalues of the features' covariance, descending, and the number of rows."""
        return self.reduce(reductions.Spectrum)

    @property
    def singular(self) -> Source:
        """Singular values of the rows-by-features matrix, descending, and the number of rows."""
        return self.reduce(reductions.Singular)

    @property
    def matrix_singular(self) -> Source:
        """Singular values of the tensor as a matrix, axis 0 by the rest, descending."""
        return self.reduce(reductions.MatrixSingular)

    @property
    def feature_max(self) -> Source:
        """Largest value of each feature, a vector."""
        return self.reduce(reductions.FeatureMax)

    @property
    def sign(self) -> Source:
        """Sign of each element as int8, in the tensor's shape."""
        return self.reduce(reductions.Sign)

    @property
    def fingerprint(self) -> Source:
        """A hash of all bits and of their places, in two halves."""
        return self.reduce(reductions.Fingerprint)

    @property
    def raw(self) -> Source:
        """A copy of the tensor itself."""
        return self.reduce(reductions.Raw)

    @property
    def sample(self) -> Source:
        """The same; of evenly spaced rows where ``max_elements`` bounds it."""
        return self.reduce(reductions.Sample)

    @property
    def parts(self) -> Source:
        """The same; of parts of many rows where ``max_elements`` bounds it."""
        return self.reduce(reductions.Parts)


@dataclass(frozen=True)
class Pair:
    """A call's input together with its output's gradient."""

    def reduce(self, reduction: Callable[..., PairReduction]) -> Source:
        """A source that applies a reduction of your own, with ``measure_pair(x, g)``.

        Raises:
            TypeError: It is an instance, or a class without one of the methods.
        """
        check_reduction(reduction, PairReduction)
        return Source("pair", reduction)

    @property
    def sample_grad_norms(self) -> Source:
        """Norm of each sample's share in the gradient of the weight."""
        return self.reduce(reductions.PerSample)

    @property
    def noise(self) -> Source:
        """Squared norms of the samples' shares in the weight's gradient, and of their sum."""
        return self.reduce(reductions.Noise)


@dataclass(frozen=True)
class CallPlace:
    """All arguments of a call, together with its result.

    Attributes:
        functions: Those whose calls they are, wherever the forward of a module makes one; None
            for calls of the module itself, or of a function that is a key.
    """

    functions: FunctionGroup | None = None

    def reduce(self, reduction: Callable[..., CallReduction]) -> Source:
        """A source that applies a reduction of your own, with ``measure_call(call, result)``.

        Raises:
            TypeError: It is an instance, or a class without one of the methods.
        """
        check_reduction(reduction, CallReduction)
        return Source("call", reduction, functions=self.functions)


def check_reduction(reduction: Any, protocol: type) -> None:
    """Checks that something makes reductions.

    Raises:
        TypeError: It is an instance, or a class without one of the methods.
    """
    name = getattr(reduction, "__name__", type(reduction).__name__)
    if not callable(reduction):
        raise TypeError(f"give the reduction's class, {name}, not an instance of it")
    measure = {PairReduction: "measure_pair", CallReduction: "measure_call"}
    methods = (measure.get(protocol, "measure"), "merge", "scale", "finish")
    lacking = [m for m in methods if isinstance(reduction, type) and not hasattr(reduction, m)]
    if lacking:
        raise TypeError(f"the reduction {name} has no {' and no '.join(lacking)}")


EACH = "each"
"""The name for every parameter that a module itself has."""

input = Place("input")
output = Place("output")
input_grad = Place("input_grad")
output_grad = Place("output_grad")
weight = Place("parameter", "weight")
weight_grad = Place("parameter_grad", "weight")
parameter = Place("parameter", EACH)
parameter_grad = Place("parameter_grad", EACH)
first_moment = Place("first_moment", EACH)
second_moment = Place("second_moment", EACH)
optimizer_step = Source("step", reductions.StepOfParameter, name=EACH)
pair = Pair()
all_gradients = Source("gradients", reductions.Norm)
learning_rates = Source("optimizer", reductions.Raw, {"max_elements": None})
logged_losses = Source("logged", reductions.Raw, {"max_elements": None})
call = CallPlace()
forward_seconds = Source("span", reductions.ForwardSeconds)
backward_seconds = Source("backward", reductions.BackwardSeconds)
saved_bytes = Source("span", reductions.SavedBytes)


def buffer(name: str) -> Place:
    """A buffer of the module, as it is when the quantity is emitted."""
    return Place("buffer", name)


def previous(source: Source) -> Source:
    """The source's reading of one due step earlier; None at the first due step."""
    return dataclasses.replace(source, ago=source.ago + 1)
