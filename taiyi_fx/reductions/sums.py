"""Sums of squares that keep their digits, neither overflow nor underflow, and stay fast.

On the CPU, torch adds the squares of a float32 tensor one by one in float32: the norm of 10^8
elements is 1 % off. Asked for float64 it is exact, and 20 times slower. So there partial sums are
taken in float32, and what may have left float32's range is taken again in float64. Other devices,
and compiled code, accumulate in float64 at no cost.
"""

from __future__ import annotations

import torch
from torch import Tensor

from taiyi_fx.reductions.rows import accumulated

_BLOCK = 1024
_SMALL = 4096
_PRECISE = 2048
"""So many squares, added one by one in float32, leave an error of 2e-6 (of constants)."""
_TOGETHER = 64
_FAR = 1e30
_LOW, _HIGH = 1e-15, 1e15
"""Between them no square that matters leaves float32's range: their squares are 1e-30 and 1e30."""


def wide(device: torch.device) -> torch.dtype:
    """The type to accumulate in: float64 wherever there is one."""
    return torch.float32 if device.type == "mps" else torch.float64


def centred(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The mean over some axes, in float64, and the deviations from it, in the type of ``x``.

    Exact for constants, whose deviations must be zero and not the rounding of a sum; precise where
    the mean is large beside the spread, and where the first element is far from the others.
    """
    if x.dtype == torch.float64 or (x.numel() > _SMALL and _is_fast(x)):
        return _centred_around_itself(x, axes)
    mean = x.mean(axes, keepdim=True, dtype=wide(x.device))
    about = mean.to(x.dtype)
    deviations = (x - about).sub_((mean - about).to(x.dtype))
    return mean.squeeze(axes), deviations


def _centred_around_itself(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The same where there is no wider type to take the mean in, or none that is fast."""
    first = x
    for axis in axes:
        first = first.narrow(axis, 0, 1)
    about, of_sums = x.mean(axes, keepdim=True), None
    if _is_fast(x) and not about.abs().amax() < _FAR:  # there sums may leave float32's range
        of_sums = torch.float64
        about = x.mean(axes, keepdim=True, dtype=of_sums).float()
    # The first element where it is as good: of constants it is the mean, without any rounding.
    about = torch.where((first - about).abs() <= about.abs() * 1e-4, first, about)
    deviations = x - about
    offset = deviations.mean(axes, keepdim=True, dtype=of_sums)
    deviations.sub_(offset.to(x.dtype))
    return (about.double() + offset.double()).squeeze(axes), deviations


def ratio(part: Tensor, whole: Tensor | int) -> Tensor:
    """One number or count over another, in float64; NaN of nothing."""
    return part.to(wide(part.device)) / whole


def norm(x: Tensor) -> Tensor:
    """The Euclidean norm of all elements, as a scalar in float64."""
    return norm_as_found(x).double()


def norm_as_found(x: Tensor) -> Tensor:
    """The same of a tensor of any type, in float32 where that was as precise."""
    if not _is_fast(x):
        x = accumulated(x)
        if not _is_fast(x):
            return torch.linalg.vector_norm(x, dtype=wide(x.device))
    # What most of a small model's watching comes down to: two calls of torch.
    found = torch.linalg.vector_norm(x) if x.numel() <= _PRECISE else _blocked_norm(x)
    if _LOW < found.item() < _HIGH or not x.any():
        return found
    return torch.linalg.vector_norm(x, dtype=torch.float64)


def norms(tensors: list[Tensor]) -> Tensor:
    """The Euclidean norm of each tensor, of alike ones by one call, as a vector in float64."""
    small = _small_by_shape(tensors)
    order = [i for alike in small for i in alike]
    found: dict[int, Tensor] = {}
    if order:
        of_small = _norms_of_small([[tensors[i] for i in alike] for alike in small])
        if order == list(range(len(tensors))):
            return of_small
        if len(order) == len(tensors):
            return torch.empty_like(of_small).index_copy_(0, torch.tensor(order), of_small)
        found.update(zip(order, of_small, strict=True))
    others = {i: accumulated(x) for i, x in enumerate(tensors) if i not in found}
    found.update((i, norm(x)) for i, x in others.items() if _is_fast(x))
    rest = [i for i in others if i not in found]
    if rest:
        kind = wide(others[rest[0]].device)
        of_rest = torch._foreach_norm(  # pyright: ignore[reportPrivateImportUsage]
            [others[i] for i in rest], 2, dtype=kind
        )
        found.update(zip(rest, of_rest, strict=True))
    return torch.stack([found[i] for i in range(len(tensors))])


def _small_by_shape(tensors: list[Tensor]) -> list[list[int]]:
    """Where those are whose norms are precise in float32, in groups that are small together."""
    found: dict[torch.Size, list[int]] = {}
    for i, x in enumerate(tensors):
        if x.dtype is torch.float32 and x.is_cpu and x.numel() <= _PRECISE and not x.is_neg():
            found.setdefault(x.shape, []).append(i)
    return [
        alike[start : start + _TOGETHER]
        for alike in found.values()
        for start in range(0, len(alike), _TOGETHER)
    ]


def _norms_of_small(groups: list[list[Tensor]]) -> Tensor:
    # torch's own norm of a list takes them one by one on the CPU: twice the time.
    stacks = (torch.stack(alike).reshape(len(alike), -1) for alike in groups)
    found = torch.cat([torch.linalg.vector_norm(rows, dim=1) for rows in stacks]).double()
    sizes = found.tolist()
    if not (min(sizes) > _LOW and max(sizes) < _HIGH):
        every = [x for alike in groups for x in alike]
        for i, size in enumerate(sizes):
            if not _LOW < size < _HIGH:
                found[i] = norm(every[i])
    return found


def square_sums(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The sums of squares over some axes, all of them or all but one, in float64."""
    if not _is_fast(x):
        return torch.linalg.vector_norm(x, dim=axes, dtype=wide(x.device)).square()
    if len(axes) == x.ndim:
        return norm(x).square()
    found = x.square().sum(axes).double()
    doubtful = ~((found > _LOW**2) & (found < _HIGH**2))
    if doubtful.any():
        (kept,) = set(range(x.ndim)).difference(axes)
        of_these = doubtful.nonzero().squeeze(1)
        again = x.index_select(kept, of_these)
        norms = torch.linalg.vector_norm(again, dim=axes, dtype=torch.float64)
        found[of_these] = norms.square()
    return found


def in_unit(x: Tensor, axes: tuple[int, ...] = ()) -> tuple[Tensor, Tensor]:
    """``x`` divided by a power of two, so that products of it stay in range, and that power.

    On the CPU, what is in range as it is stays as it is: the pass over all elements is saved.

    Args:
        x: The numbers.
        axes: Those that share a power of two, all by default; they are kept with a size of 1.
    """
    largest = _largest(x, axes)
    if _is_fast(x):
        low, high = torch.aminmax(largest)
        if low.item() > _LOW and high.item() < _HIGH:
            return x, torch.ones_like(largest)
    unit = _power_at_or_below(largest)
    return x / unit, unit


def power_of_two(x: Tensor) -> Tensor:
    """The power of two at or below the largest absolute value of ``x``, as a scalar.

    Dividing by it is exact, and the products of what is left stay in range. It is the smallest
    normal number for zeros, 1 where something is not finite.
    """
    return _power_at_or_below(_largest(x, ()))


def _largest(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    if not x.numel():
        return x.new_zeros([1 if i - x.ndim in axes else n for i, n in enumerate(x.shape)])
    # Without an axis torch has both in one pass; neither way makes a copy for absolute values.
    low, high = (x.amin(axes, True), x.amax(axes, True)) if axes else torch.aminmax(x)
    return torch.maximum(-low, high)


def _power_at_or_below(largest: Tensor) -> Tensor:
    exponent = torch.where(largest > 0, torch.frexp(largest).exponent - 1, -126).clamp(-126, 126)
    exponent = torch.where(torch.isfinite(largest), exponent, 0)
    return torch.ldexp(torch.ones_like(largest), exponent)


def _is_fast(x: Tensor) -> bool:
    if torch.compiler.is_compiling():
        return False
    # On other devices a look at the result would wait for it.
    return x.dtype is torch.float32 and x.is_cpu and not x.is_neg()


def _blocked_norm(x: Tensor) -> Tensor:
    flat = x.reshape(-1)
    rest = x.numel() % _BLOCK
    blocks = flat[: x.numel() - rest].view(-1, _BLOCK)
    found = torch.linalg.vector_norm(torch.linalg.vector_norm(blocks, dim=1), dtype=torch.float64)
    if rest:
        found = torch.hypot(found, torch.linalg.vector_norm(flat[-rest:], dtype=torch.float64))
    return found
