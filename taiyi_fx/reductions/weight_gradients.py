"""Rules for a weight's gradient, sample by sample, from the input and the output's gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from taiyi_fx.reductions.products import product_of
from taiyi_fx.reductions.sums import in_unit, is_fast, square_sums, wide


class Shares(NamedTuple):
    """Each sample's share in the gradient of the weight, for gradients of size one.

    Attributes:
        square_norms: The squared norm of each share, N numbers in float64.
        total: The sum of all shares; its shape is some arrangement of the weight's, where that is
            complex with a further axis for the two parts of each number.
        unit: The factor to multiply the total with; the squared norms have it already.
    """

    square_norms: Tensor
    total: Tensor
    unit: Tensor


class WeightGradient(Protocol):
    """A layer's rule; ``x`` is its input and ``g`` the gradient of its output."""

    def shares(self, x: Tensor, g: Tensor, *, with_total: bool) -> Shares:
        """Each sample's share in the gradient of the weight."""
        ...


@dataclass(frozen=True)
class Dense:
    """A linear layer: the sum over a sample's positions t of g_t x_t^T.

    Attributes:
        transposed: True for a weight that is in x out, as GPT-2's are.
    """

    transposed: bool = False

    def shares(self, x: Tensor, g: Tensor, *, with_total: bool) -> Shares:
        """Each sample's share; N x ... x in and N x ... x out."""
        (x, g), unit = _in_units(x, g)
        n = x.shape[0] if x.ndim > 1 else 1
        x, g = (t.reshape(n, 1, -1, t.shape[-1]) for t in (x, g))
        x = x.conj()
        return _of_products(*((g, x) if self.transposed else (x, g)), unit, with_total)


@dataclass(frozen=True)
class Convolution:
    """A convolution in any number of dimensions: a linear layer of the input's patches.

    Attributes:
        kernel: Sizes of the kernel.
        stride: Steps between patches.
        dilation: Steps inside a patch.
        groups: The number of groups of channels.
        padding: Sizes as `torch.nn.functional.pad` takes them.
        padding_mode: The mode, likewise.
        transposed: True for the transpose, whose output has the patches.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    padding: tuple[int, ...]
    padding_mode: str = "constant"
    transposed: bool = False

    def shares(self, x: Tensor, g: Tensor, *, with_total: bool) -> Shares:
        """Each sample's share; N x C_in x ... and N x C_out x ..."""
        if x.ndim == len(self.kernel) + 1:
            x, g = x.unsqueeze(0), g.unsqueeze(0)
        (x, g), unit = _in_units(x, g)
        x = x.conj()
        if self.transposed:
            x, g = g, x
        x = F.pad(x, self.padding, self.padding_mode)
        for i, (size, stride, dilation) in enumerate(self._steps(), start=2):
            # The output of a transpose may be padded by more than its last patch.
            x = x.narrow(i, 0, (g.shape[i] - 1) * stride + (size - 1) * dilation + 1)
        patches = self._patches(x)
        of_positions = g.reshape(g.shape[0], self.groups, g.shape[1] // self.groups, -1).mT
        return _of_products(patches, of_positions, unit, with_total)

    def _steps(self) -> Iterable[tuple[int, int, int]]:
        return zip(self.kernel, self.stride, self.dilation, strict=True)

    def _patches(self, x: Tensor) -> Tensor:
        """N x groups x positions x elements of a patch."""
        dims = len(self.kernel)
        for i, (size, stride, dilation) in enumerate(self._steps(), start=2):
            x = x.unfold(i, (size - 1) * dilation + 1, stride)[..., ::dilation]
        n, c, *positions = x.shape[: 2 + dims]
        x = x.reshape(n, self.groups, c // self.groups, *positions, *self.kernel)
        x = x.movedim(2, 2 + dims)
        count = 1
        for size in positions:
            count *= size
        return x.reshape(n, self.groups, count, -1)


@dataclass(frozen=True)
class Lookup:
    """An embedding: each row of the weight gets the gradients of the positions that took it.

    Attributes:
        rows: The number of rows of the weight.
        padding_idx: The row that gets no gradient.
    """

    rows: int
    padding_idx: int | None = None

    def shares(self, x: Tensor, g: Tensor, *, with_total: bool) -> Shares:
        """Each sample's share; ``x`` holds N x ... indices, ``g`` N x ... x D."""
        (g,), unit = _in_units(g)
        n = x.shape[0] if x.ndim else 1
        x, g = x.reshape(n, -1), g.reshape(n, -1 if g.numel() else 0, g.shape[-1])
        if self.padding_idx is not None:
            g = g * (x != self.padding_idx).unsqueeze(2)
        squares = _sums_over_pairs(_products_of_same, g, x)
        total = g.new_zeros(self.rows if with_total else 0, g.shape[-1])
        if with_total:
            total = total.index_add(0, x.reshape(-1), g.flatten(0, 1))
        return _shares(squares, total, unit)


@dataclass(frozen=True)
class Normalization:
    """A norm of single samples: the sum over a sample's positions of g times the normalised input.

    Attributes:
        kind: The kind of norm.
        eps: The number added to the variance.
        shape: The normalised axes, of layer and RMS norms.
        groups: Of group norm.
        axes: The number of axes of a batch, of instance norm.
    """

    kind: Literal["layer", "rms", "group", "instance"]
    eps: float | None
    shape: tuple[int, ...] = ()
    groups: int = 1
    axes: int = 0

    def shares(self, x: Tensor, g: Tensor, *, with_total: bool) -> Shares:
        """Each sample's share; N x ... x shape, or N x C x ..."""
        if x.ndim == len(self.shape) or x.ndim == self.axes - 1:
            x, g = x.unsqueeze(0), g.unsqueeze(0)
        (g,), unit = _in_units(g)
        shares = g * self._normalized(x)
        axes = range(1, x.ndim - len(self.shape)) if self.shape else range(2, x.ndim)
        shares = (shares.sum(tuple(axes)) if len(axes) else shares).flatten(1)
        return _shares(square_sums(shares, (1,)), shares.sum(0), unit)

    def _normalized(self, x: Tensor) -> Tensor:
        if self.kind == "rms":
            return F.rms_norm(x, self.shape, None, self.eps)
        eps = self.eps or 0.0
        if self.kind == "layer":
            return F.layer_norm(x, self.shape, None, None, eps)
        if self.kind == "group":
            return F.group_norm(x, self.groups, None, None, eps)
        return F.instance_norm(x, eps=eps)


def _of_products(x: Tensor, g: Tensor, unit: Tensor, with_total: bool) -> Shares:
    """Of sum_t g_t x_t^T, from N x groups x positions x features each.

    The gradient of a complex weight has the conjugate of the input in it, which ``x`` is then.
    """
    n, groups, positions, features = x.shape
    if positions == 1:
        of_x, of_g = (square_sums(t.reshape(n * groups, -1), (1,)) for t in (x, g))
        squares = (of_x * of_g).reshape(n, groups)
    elif positions**2 <= features * g.shape[-1]:  # without any sample's gradient
        of_each = _sums_over_pairs(_products_of_two, x.flatten(0, 1), g.flatten(0, 1))
        squares = of_each.reshape(n, groups)
    else:
        products = product_of(g.mT, x).reshape(n * groups, -1)
        squares = square_sums(products, (1,)).reshape(n, groups)
    total = x.new_zeros(0)
    if with_total:
        of_g, of_x = (t.movedim(1, 0).flatten(1, 2) for t in (g, x))
        total = product_of(of_g.mT, of_x)
    if total.is_complex():
        total = torch.view_as_real(total)
    return _shares(squares.sum(1), total, unit)


_DIGITS = 1e-2
"""The share of what float32 rounds that has to be left of a sum, for an error of 1e-5 of it."""


def _sums_over_pairs(
    products: Callable[[Tensor, Tensor], Tensor], one: Tensor, other: Tensor
) -> Tensor:
    """The sums of products over all pairs of positions, N numbers in float64.

    Squares of float32 have lost all digits where positions cancel to 1e-4 of their size: these are
    taken again from float64, or where a look would wait all of them at once.
    """
    if not is_fast(one):
        return products(_widened(one), _widened(other)).sum((-2, -1))
    pairs = products(one, other)
    sums = pairs.sum((-2, -1), dtype=torch.float64)
    rounded = pairs.diagonal(dim1=-2, dim2=-1).sum(-1)
    doubtful = (sums < _DIGITS * rounded).nonzero().squeeze(1)
    if len(doubtful):
        again = (_widened(t.index_select(0, doubtful)) for t in (one, other))
        sums[doubtful] = products(*again).sum((-2, -1))
    return sums


def _products_of_two(x: Tensor, g: Tensor) -> Tensor:
    """The products of inner products of positions of both, N x positions x positions."""
    # Of what was in range without units, products of four may not be.
    found = _widened(product_of(x, x.mH)) * product_of(g, g.mH)
    return found.real if found.is_complex() else found


def _products_of_same(g: Tensor, x: Tensor) -> Tensor:
    """Those of gradients, where the positions have one index."""
    return product_of(g, g.mT) * (x.unsqueeze(2) == x.unsqueeze(1))


def _widened(x: Tensor) -> Tensor:
    """The numbers in float64 or complex128, and indices as they are."""
    if not (x.is_floating_point() or x.is_complex()):
        return x
    return x.to(torch.promote_types(x.dtype, wide(x.device)))


def _in_units(*tensors: Tensor) -> tuple[list[Tensor], Tensor]:
    """Tensors in units, powers of two, so that no product of two leaves float32's range."""
    scaled = []
    unit = torch.ones((), dtype=wide(tensors[0].device), device=tensors[0].device)
    least = torch.finfo(unit.dtype).tiny  # of two zeros in float64 the product would be no unit
    for tensor in tensors:
        if tensor.is_complex():
            x, u = in_unit(torch.view_as_real(tensor.resolve_conj()))
            x = torch.view_as_complex(x)
        else:
            x, u = in_unit(tensor)
        scaled.append(x)
        unit = (unit * u).clamp(min=least)
    return scaled, unit


def _shares(square_norms: Tensor, total: Tensor, unit: Tensor) -> Shares:
    return Shares(square_norms.clamp(min=0) * unit.square(), total, unit)
