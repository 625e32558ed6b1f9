"""A parameter as a matrix, for what its singular values tell."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.reductions.lanczos import largest_of_gram
from taiyi_fx.reductions.products import product_of
from taiyi_fx.reductions.spectra import eigenvalues_of, guarded, parameter_matrix

_SMALL = 512
"""Up to this size of its smaller side, a matrix is decomposed for its largest singular value."""


@dataclass(frozen=True)
class MatrixValue:
    """Finished `WeightMatrix`: squared singular values, computed when first asked for.

    All are in float64, for the matrix over its largest element, so that no square leaves the range;
    and NaN where the parameter has NaN or Inf.

    Attributes:
        matrix: The matrix over its largest element, with zeros for what is not finite.
        unit: The largest element.
        is_broken: True where something was not finite.
    """

    matrix: Tensor
    unit: Tensor
    is_broken: Tensor

    @property
    def square_norm(self) -> Tensor:
        """The sum of the squares of all elements."""
        return self._unless_broken(self.matrix.square().sum())

    @functools.cached_property
    def largest(self) -> Tensor:
        """The largest squared singular value; by Lanczos, to a relative 1e-5, above 512."""
        if min(self.matrix.shape) <= _SMALL:
            return self.squares[0]
        return self._unless_broken(largest_of_gram(self.matrix))

    @functools.cached_property
    def squares(self) -> Tensor:
        """All squared singular values, descending: the eigenvalues of the smaller Gram matrix."""
        m = self.matrix if self.matrix.shape[0] <= self.matrix.shape[1] else self.matrix.T
        return self._unless_broken(eigenvalues_of(product_of(m, m.T)))

    @property
    def zero(self) -> Tensor:
        """The magnitude at and below which one of them is zero."""
        eps = torch.finfo(self.matrix.dtype).eps
        return self.squares[0] * max(self.matrix.shape) * eps

    def _unless_broken(self, value: Tensor) -> Tensor:
        return torch.where(self.is_broken, torch.nan, value)


@dataclass(frozen=True)
class WeightMatrix:
    """A copy of a parameter as a matrix, axis 0 by the rest.

    So the rows are the output channels of a convolution, and the words of an embedding.

    Cost: a copy; what its singular values tell is computed aside
    """

    is_costly: ClassVar[bool] = True

    def measure(self, x: Tensor) -> State:
        return (parameter_matrix(x).clone(),)

    def merge(self, a: State, b: State) -> State:
        return (torch.cat([a[0], b[0]]),)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * factor,)

    def finish(self, state: State) -> MatrixValue:
        (x,) = state
        x = torch.cat([x.real, x.imag], 1) if x.is_complex() else x
        safe, broken = guarded(x.double())
        unit = safe.abs().amax() if safe.numel() else safe.new_zeros(())
        unit = torch.where(unit == 0, 1.0, unit)
        return MatrixValue(safe / unit, unit, broken.squeeze(-1))
