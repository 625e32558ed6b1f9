"""The axis of samples, and what becomes of tensors when samples are exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from taiyi_fx.step_checks.untried import Untried


class Axes(NamedTuple):
    """The axis of samples of each tensor.

    Attributes:
        size: The number of samples.
        of: The axes, by name; tensors without one are left out.
    """

    size: int
    of: Mapping[str, int]


def sample_axes(tensors: Mapping[str, Tensor]) -> Axes:
    """The axis of samples: the first one if all agree, else the one whose size all have.

    Raises:
        Untried: There is none, or more than one may be it.
    """
    shapes = {name: tuple(x.shape) for name, x in tensors.items() if x.ndim and x.numel() > 1}
    if not shapes:
        raise Untried("the batch has no tensors")
    common = set.intersection(*(set(shape) for shape in shapes.values())) - {1}
    firsts = {shape[0] for shape in shapes.values()}
    is_first = len(firsts) == 1
    size = min(firsts) if is_first else min(common, default=0)
    if size not in common:
        raise Untried("its tensors have no axis of samples in common")
    if len(common) > 1 and not is_first:
        raise Untried("more than one of its axes may be that of samples")
    if any(shape[:2] == (size, size) for shape in shapes.values()):
        raise Untried("there are as many places as samples: take another size of the batch")
    return Axes(size, {name: shape.index(size) for name, shape in shapes.items()})


def second_axes(tensors: Mapping[str, Tensor]) -> Axes | None:
    """The second axis, if all tensors have one, of one size."""
    sizes = {x.shape[1] if x.ndim > 1 else 0 for x in tensors.values() if x.ndim}
    size = sizes.pop() if len(sizes) == 1 else 0
    return Axes(size, {name: 1 for name, x in tensors.items() if x.ndim}) if size > 1 else None


def follows(x: Tensor, y: Tensor, order: Tensor, tolerance: float) -> bool:
    """True if a tensor is another one with its samples in an order, or has no samples."""
    size = len(order)
    if are_close(x, y, tolerance):
        return True
    views = [*_by_samples(x, size)]
    order = order.to(x.device)
    return not views or any(
        are_close(view.index_select(axis, order).reshape(y.shape), y, tolerance)
        for view, axis in views
        if x.shape == y.shape
    )


def keeps_others(x: Tensor, y: Tensor, size: int, changed: int, tolerance: float) -> bool:
    """True if two tensors differ in one sample alone, or have no samples."""
    if x.shape != y.shape:
        return False
    views = [*_by_samples(x, size)]
    if not views or are_close(x, y, tolerance):
        return True
    others = torch.tensor([i for i in range(size) if i != changed], device=x.device)
    alike = [axis for axis, length in enumerate(x.shape) if length == size]
    if len(alike) > 1:  # such as each sample's similarity to each other one
        for axis in alike:
            x, y = (a.index_select(axis, others) for a in (x, y))
        return are_close(x, y, tolerance)

    def agree(view: Tensor, axis: int) -> bool:
        one, other = (a.index_select(axis, others) for a in (view, y.reshape(view.shape)))
        return are_close(one, other, tolerance)

    return any(agree(view, axis) for view, axis in views)


def are_close(x: Tensor, y: Tensor, tolerance: float) -> bool:
    """True if tensors differ by little, compared with the largest number among them."""
    if x.shape != y.shape or not x.numel():
        return x.shape == y.shape
    if not (x.is_floating_point() or x.is_complex()):
        return torch.equal(x, y)
    finite = x[x.isfinite()].abs()
    size = finite.max().item() if finite.numel() else 0.0
    return torch.allclose(x, y, rtol=0.0, atol=tolerance * max(size, 1e-30), equal_nan=True)


def _by_samples(x: Tensor, size: int) -> Iterator[tuple[Tensor, int]]:
    """A tensor with an axis of samples, for each axis that may be it.

    Axes that samples share with places, or with the heads of an attention, are parted.
    """
    for axis, length in enumerate(x.shape):
        if length == size:
            yield x, axis
        elif length % size == 0 and length:
            for parts, at in (((size, length // size), axis), ((length // size, size), axis + 1)):
                yield x.unflatten(axis, parts), at
