"""Reductions over all elements of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import Elements, Numbers, State, States
from taiyi_fx.passes.probes.compiling import is_compiling
from taiyi_fx.passes.probes.one_pass import elements_of
from taiyi_fx.reductions.rows import accumulated, are_nan, count
from taiyi_fx.reductions.sums import (
    count_nonzero,
    is_on_gpu,
    largest,
    norm,
    norm_in_python,
    norm_of_both,
    norm_on_gpu,
    norms,
    square_sums,
    wide,
)


@dataclass(frozen=True)
class Norm:
    """The Euclidean norm of all elements. Finishes as a scalar in float64.

    Cost: one pass
    """

    is_over_elements: ClassVar[bool] = True
    finishes_as_is: ClassVar[bool] = True

    def measure(self, x: Tensor) -> State:
        return (norm(x),)

    def of_elements(self, elements: Elements) -> State:
        """The same of what one pass over a GPU's tensor told."""
        return (elements.norm,)

    def measure_scalar(self, x: Tensor) -> Numbers | None:
        """The same in numbers of Python, if that takes less time."""
        found = norm_in_python(x)
        return None if found is None else (found,)

    def measure_many(self, tensors: Sequence[Tensor]) -> States:
        """The same of each of several tensors."""
        return (norms(tensors),)

    def merge(self, a: State, b: State) -> State:
        return (norm_of_both(a[0], b[0]),)

    def scale(self, state: State, factor: float) -> State:
        return (state[0].to(wide(state[0].device)) * abs(factor),)

    def finish(self, state: State) -> Tensor:
        (found,) = state
        return found if found.dtype is torch.float64 else found.to(wide(found.device))


@dataclass(frozen=True)
class SquareSum:
    """The sum of the squares of all elements. Finishes as a scalar in float64.

    Cost: one pass
    """

    is_over_elements: ClassVar[bool] = True
    finishes_as_is: ClassVar[bool] = True

    def measure(self, x: Tensor) -> State:
        return (norm(x).square(),)

    def of_elements(self, elements: Elements) -> State:
        """The same of what one pass over a GPU's tensor told."""
        return (elements.square_sum,)

    def measure_scalar(self, x: Tensor) -> Numbers | None:
        """The same in numbers of Python, if that takes less time."""
        found = norm_in_python(x)
        return None if found is None else (found * found,)

    def measure_many(self, tensors: Sequence[Tensor]) -> States:
        """The same of each of several tensors."""
        found = norms(tensors)
        return (found.square() if isinstance(found, Tensor) else [n * n for n in found],)

    def merge(self, a: State, b: State) -> State:
        return (a[0] + b[0],)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * factor**2,)

    def finish(self, state: State) -> Tensor:
        return state[0]


@dataclass(frozen=True)
class AbsMax:
    """The largest absolute value of all elements; NaN if one is. Finishes as a scalar.

    Cost: one pass
    """

    is_over_elements: ClassVar[bool] = True

    def measure(self, x: Tensor) -> State:
        if is_on_gpu(x):  # one kernel, which converts
            return (norm_on_gpu(x, math.inf),)
        return (largest(accumulated(x)),)

    def of_elements(self, elements: Elements) -> State:
        """The same of what one pass over a GPU's tensor told."""
        return (elements.abs_max,)

    def merge(self, a: State, b: State) -> State:
        return (torch.maximum(a[0], b[0]),)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * abs(factor),)

    def finish(self, state: State) -> Tensor:
        return state[0]


class SampleNormsValue(NamedTuple):
    """Finished `SampleNorms`: the number of samples and the sum of their norms."""

    n: Tensor
    total: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean over the samples; NaN without any."""
        return self.total / self.n


@dataclass(frozen=True)
class SampleNorms:
    """The Euclidean norms of the samples, which are the entries of axis 0.

    Cost: one pass

    Attributes:
        normalize: Divide each by the root of its number of elements, for a root mean square.
    """

    normalize: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.normalize, bool):
            raise TypeError(f"normalize must be True or False, not {self.normalize!r}")

    def measure(self, x: Tensor) -> State:
        x = accumulated(x)
        samples = x.reshape(x.shape[0] if x.ndim else 1, -1) if x.numel() else x.new_empty(0, 1)
        found = square_sums(samples, (1,)).sqrt()
        if self.normalize:
            found = found / samples.shape[1] ** 0.5
        return count(samples.shape[0], x), found.sum()

    def merge(self, a: State, b: State) -> State:
        return a[0] + b[0], a[1] + b[1]

    def scale(self, state: State, factor: float) -> State:
        return state[0], state[1] * abs(factor)

    def finish(self, state: State) -> SampleNormsValue:
        return SampleNormsValue(*state)


@dataclass(frozen=True)
class Count:
    """The number of elements. Finishes as an integer scalar.

    Cost: nothing
    """

    is_over_elements: ClassVar[bool] = True
    finishes_as_is: ClassVar[bool] = True

    def measure(self, x: Tensor) -> State:
        return (count(x.numel(), x),)

    def measure_scalar(self, x: Tensor) -> Numbers | None:
        """The same as a number of Python: on a device it would be filled in by a kernel."""
        return self.measure_shape(x.shape) if x.is_cpu or x.is_cuda else None

    def measure_shape(self, shape: Sequence[int]) -> Numbers:
        """The same of all tensors of a shape, which compiled code need not return."""
        return (math.prod(shape),)

    def measure_many(self, tensors: Sequence[Tensor]) -> States:
        """The same of each of several tensors."""
        return ([x.numel() for x in tensors],)

    def merge(self, a: State, b: State) -> State:
        return (a[0] + b[0],)

    def scale(self, state: State, factor: float) -> State:
        return state

    def finish(self, state: State) -> Tensor:
        return state[0]


class NonFinitesValue(NamedTuple):
    """Finished `NonFinites`: the numbers of NaN and of infinite elements."""

    nan: Tensor
    inf: Tensor


_SUMMED = frozenset((torch.float64, torch.float32, torch.float16, torch.bfloat16))
"""The types of which a sum tells whether all is finite."""


@dataclass(frozen=True)
class NonFinites:
    """Number of elements that are NaN, and of infinite ones. Counts are exact.

    Its state is the number of NaN, and that of all that are not finite.

    Cost: one pass on the CPU, where all are finite, and on a GPU with Triton; else four to six
    """

    is_over_elements: ClassVar[bool] = True

    def measure(self, x: Tensor) -> State:
        if self.measure_scalar(x) is not None:
            return count(0, x), count(0, x)
        if is_on_gpu(x):
            elements = elements_of(x)
            if elements is not None:
                return self.of_elements(elements)
            return count_nonzero(x.clamp(0, 0)), count_nonzero(x * 0)
        if is_compiling() and x.dtype in _SUMMED:
            return are_nan(x).sum(), (~(x.abs() < torch.inf)).sum()
        # Not through float32: what is finite in the tensor's own type stays so.
        nan = x.isnan().sum()
        return nan, nan + x.isinf().sum()

    def of_elements(self, elements: Elements) -> State:
        """The same of what one pass over a GPU's tensor told."""
        return elements.nan, elements.bad

    def measure_scalar(self, x: Tensor) -> Numbers | None:
        """Two zeros where a look at the sum tells that all elements are finite."""
        # A sum with NaN or Inf in it is not finite. That of finite numbers may leave the range, and
        # then they are counted. Elsewhere than on the CPU a look would wait for the device.
        if x.dtype not in _SUMMED or not x.is_cpu or is_compiling():
            return None
        if math.isfinite(x.sum()):
            return 0, 0
        # Of float16 that is no rare event, and another sum takes a third of the time of counting.
        is_half = x.dtype is torch.float16
        return (0, 0) if is_half and math.isfinite(x.sum(dtype=torch.float32)) else None

    def merge(self, a: State, b: State) -> State:
        return a[0] + b[0], a[1] + b[1]

    def scale(self, state: State, factor: float) -> State:
        return state

    def finish(self, state: State) -> NonFinitesValue:
        nan, every = state
        return NonFinitesValue(nan, every - nan)


class ScalarValue(NamedTuple):
    """Finished `Scalar`: the number of values and their sum."""

    n: Tensor
    total: Tensor


@dataclass(frozen=True)
class Scalar:
    """The number of tensors and the sum of what each holds, a single number.

    Cost: nothing
    """

    def measure(self, x: Tensor) -> State:
        if x.numel() == 1:
            return count(1, x), accumulated(x).reshape(()).to(wide(x.device), copy=True)
        if is_compiling():  # where an error that is raised here would not reach the user
            return count(0, x), torch.zeros((), dtype=wide(x.device), device=x.device)
        raise ValueError(f"a scalar is read here, but the tensor has the shape {tuple(x.shape)}")

    def merge(self, a: State, b: State) -> State:
        return a[0] + b[0], a[1] + b[1]

    def scale(self, state: State, factor: float) -> State:
        return state[0], state[1] * factor

    def finish(self, state: State) -> ScalarValue:
        return ScalarValue(*state)
