"""Sums of squares that keep their digits, neither overflow nor underflow, and stay fast.

On the CPU, torch adds the squares of a float32 tensor one by one in float32: the norm of 10^8
elements is 1 % off. Asked for float64 it is exact, and 20 times slower. So there partial sums are
taken in float32, and what may have left float32's range is taken again in float64. On a GPU a look
at a number would wait; there a kernel of our own adds in float64 in one pass over memory, or one of
torch that reads any type, where other sums that are asked for float64 copy the tensor first.
Compiled code takes sums in float64, without a copy.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.linalg import vector_norm

from taiyi_fx.passes.probes.compiling import is_compiling
from taiyi_fx.passes.probes.one_pass import in_memory_order, norm_of
from taiyi_fx.reductions.rows import accumulated

_BLOCK = 2**13
"""So many squares, added by BLAS in float32, leave an error of 1e-6 of constants, else of 1e-7."""
_ROW = 1024
"""Rows of so many leave the same; one call takes all, and Python joins them in float64."""
_SMALL = 4096
"""Up to this size some tensors are measured in less time by one call, copied side by side."""
_TOGETHER = 64
_COUNTED = 2**24
"""Float32 counts so far."""
_PIECE = 2**16
"""So many elements and what is made of them stay in a core's cache, and outweigh calls of torch."""
_QUICK = frozenset((torch.float32, torch.float16, torch.bfloat16))
_FAR = 1e30
_LOW, _HIGH = 1e-12, 1e15
"""Between them no square that matters leaves float32's range: their squares are 1e-24 and 1e30."""
_LOW_WIDE, _HIGH_WIDE = 1e-140, 1e150
"""The same of float64."""
_EXPONENTS = {
    torch.float32: (torch.int32, 0xFF << 23, 126),
    torch.float64: (torch.int64, 0x7FF << 52, 1022),
}
"""The type of a number's bits, those of its exponent, and the largest power to divide by."""


_shape_of = operator.attrgetter("shape")


def wide(device: torch.device) -> torch.dtype:
    """The type to accumulate in: float64 wherever there is one."""
    return torch.float32 if device.type == "mps" else torch.float64


def centred(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The mean over some axes, in float64, and the deviations from it, in the type of ``x``.

    In float64 where they may leave float32's range, and a look at the mean does not wait for a
    device. Exact for constants, whose deviations must be zero and not the rounding of a sum;
    precise where the mean is large beside the spread, and where the first element is far from the
    others.
    """
    if x.dtype == torch.float64 or (is_fast(x) and x.numel() > _SMALL):
        return _centred_around_itself(x, axes)
    mean = x.mean(axes, keepdim=True, dtype=wide(x.device))
    if is_fast(x) and not mean.abs().amax() < _FAR:
        x = x.double()
    about = mean.to(x.dtype)
    deviations = (x - about).sub_((mean - about).to(x.dtype))
    return mean.squeeze(axes), deviations


def _centred_around_itself(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The same where there is no wider type to take the mean in, or none that is fast."""
    first = x
    for axis in axes:
        first = first.narrow(axis, 0, 1)
    about = x.mean(axes, keepdim=True)
    if is_fast(x) and not about.abs().amax() < _FAR:  # there sums may leave float32's range
        x, first = x.double(), first.double()
        about = x.mean(axes, keepdim=True)
    # The first element where it is as good: of constants it is the mean, without any rounding.
    about = torch.where((first - about).abs() <= about.abs() * 1e-4, first, about)
    deviations = x - about
    offset = deviations.mean(axes, keepdim=True)
    deviations.sub_(offset.to(x.dtype))
    return (about.double() + offset.double()).squeeze(axes), deviations


def ratio(part: Tensor, whole: Tensor | int) -> Tensor:
    """One number or count over another, in float64; NaN of nothing."""
    return part.to(wide(part.device)) / whole


def norm(x: Tensor) -> Tensor:
    """The Euclidean norm of all elements of a tensor of any type, as a scalar in `wide`."""
    if is_on_gpu(x):
        found = norm_of(x)
        return _norms_on_gpu([x])[0] if found is None else found
    found = None if is_compiling() else norm_in_python(x)
    if found is not None:
        return torch.tensor(found, dtype=torch.float64)
    x = accumulated(x)
    if x.dtype is torch.float64:
        return _norm_of_wide(x)
    return torch.linalg.vector_norm(x, dtype=wide(x.device))


def _norm_of_wide(x: Tensor) -> Tensor:
    """The norm of float64, whose squares have no wider type to be added in."""
    if x.is_cpu and not is_compiling():
        found = vector_norm(x)
        if _LOW_WIDE < found.item() < _HIGH_WIDE:
            return found
    unit = power_of_two(x)
    return vector_norm(x / unit) * unit


def norm_in_python(x: Tensor) -> float | None:
    """The same as a number of Python's, or None of a tensor that is better left to torch."""
    # Most of what watching comes down to, where a call of a function takes longer than the sum of a
    # small tensor: so nearly all of it is in this one.
    if x.dtype not in _QUICK or not x.is_cpu or x.is_neg():
        return None
    x = x if x.dtype is torch.float32 else x.float()
    n = x.numel()
    if n <= _BLOCK:
        flat = x.reshape(-1)
        size = math.sqrt(torch.dot(flat, flat).item())
    elif n % _ROW:
        size = _of_rows_and_rest(x.reshape(-1), n % _ROW)
    else:
        # Joined in Python: one more call of torch would take longer, its code being cold.
        size = math.hypot(*vector_norm(x.reshape(-1, _ROW), dim=1).tolist())
    if _LOW < size < _HIGH:
        return size
    return None if x.any() else 0.0


def _of_rows_and_rest(flat: Tensor, over: int) -> float:
    rows, rest = flat[:-over].reshape(-1, _ROW), flat[-over:]
    sizes = vector_norm(rows, dim=1).tolist()
    return math.hypot(*sizes, math.sqrt(torch.dot(rest, rest).item()))


def norms(tensors: Sequence[Tensor]) -> Tensor | list[float]:
    """The Euclidean norm of each of several tensors of one device.

    Of float32 on the CPU numbers of Python, else a vector in `wide`.
    """
    first = tensors[0]
    if all(map(is_on_gpu, tensors)):
        return torch.stack(_norms_on_gpu(tensors))
    if first.dtype not in _QUICK or not first.is_cpu:  # on a device a look at a sum would wait
        kind, every = wide(first.device), [accumulated(x) for x in tensors]
        if any(x.dtype is torch.float64 for x in every):
            return torch.stack([norm(x) for x in every])
        return torch.stack(torch._foreach_norm(every, 2, dtype=kind))  # pyright: ignore[reportPrivateImportUsage]
    shapes = [*map(_shape_of, tensors)]
    if 1 < shapes.count(first.shape) == len(shapes) <= _TOGETHER and first.numel() <= _SMALL:
        return _norms_of_alike(tensors)
    found = [0.0] * len(tensors)
    for measure, places in _ways(tuple(shapes)):
        for i, size in zip(places, measure([tensors[i] for i in places]), strict=True):
            found[i] = size
    return found


def is_on_gpu(x: Tensor) -> bool:
    """True if what kernels of a GPU read without a copy is a tensor's memory."""
    return x.is_cuda and not is_compiling() and x.dtype in _QUICK and x.numel() > 0


def _norms_on_gpu(tensors: Sequence[Tensor]) -> list[Tensor]:
    # Their signs do not matter, nor does a type that autocast would have.
    places: dict[torch.dtype, list[int]] = {}  # tensors of two types are copied
    for i, x in enumerate(tensors):
        places.setdefault(x.dtype, []).append(i)
    found = list(tensors)
    for at in places.values():
        of_one = [tensors[i] for i in at]
        norms = torch._foreach_norm(of_one, 2, dtype=torch.float64)  # pyright: ignore[reportPrivateImportUsage]
        for i, size in zip(at, norms, strict=True):
            found[i] = size
    return found


def norm_on_gpu(x: Tensor, order: float, dim: int | None = None) -> Tensor:
    """A norm in float32, by one kernel: under autocast torch would make a copy in float32 first."""
    with torch.autocast("cuda", enabled=False):
        return torch.linalg.vector_norm(x, order, dim=dim, dtype=torch.float32)


def norm_of_both(a: Tensor, b: Tensor) -> Tensor:
    """The norm of two parts by those of each, in `wide`; NaN if one is, also beside an Inf."""
    a, b = (n.to(wide(n.device)) for n in (a, b))
    return torch.hypot(a, b).maximum(a).maximum(b)  # which is no less, and hands a NaN on


def sum_of(x: Tensor) -> Tensor:
    """The sum of all elements, as a scalar in `wide`."""
    if not is_on_gpu(x) or x.is_neg():
        return x.sum(dtype=wide(x.device))
    rows, rest = in_rows(x)
    found = rows.sum(1, dtype=torch.float32).sum(dtype=torch.float64)
    return found + rest.sum(dtype=torch.float64) if len(rest) else found


def count_nonzero(x: Tensor) -> Tensor:
    """The number of elements that are not zero, on a GPU: a sum of truth values copies them all."""
    if x.numel() <= _COUNTED:
        return norm_on_gpu(x, 0).to(torch.int64)
    rows, rest = in_rows(x)
    found = norm_on_gpu(rows, 0, dim=1)
    return found.sum(dtype=torch.float64).to(torch.int64) + (rest != 0).sum()


def in_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """All elements as rows of which one pass over memory makes few numbers, and those left over.

    In the order that they have in memory, where that is dense.
    """
    flat = in_memory_order(x).reshape(-1)
    over = flat.numel() % _ROW
    return flat[: flat.numel() - over].reshape(-1, _ROW), flat[flat.numel() - over :]


def _norms_of_alike(tensors: Sequence[Tensor]) -> list[float]:
    """Those of small tensors of one shape, copied side by side."""
    stacked = torch.stack(list(tensors))
    if stacked.dtype not in _QUICK:
        return _norms_one_by_one(tensors)
    rows = stacked.reshape(len(tensors), tensors[0].numel())
    rows = rows if rows.dtype is torch.float32 else rows.float()
    found: list[float] = vector_norm(rows, dim=1).tolist()
    if min(found) > _LOW and max(found) < _HIGH:  # as nearly always
        return found
    return _in_range(found, tensors)


def _norms_of_rows(tensors: Sequence[Tensor]) -> list[float]:
    """Those of large tensors that are whole rows."""
    if not _QUICK.issuperset([x.dtype for x in tensors]):
        return _norms_one_by_one(tensors)
    singles = (x if x.dtype is torch.float32 else x.float() for x in tensors)
    of_rows = [vector_norm(x.reshape(-1, _ROW), dim=1).tolist() for x in singles]
    return _in_range([math.hypot(*sizes) for sizes in of_rows], tensors)


def _norms_one_by_one(tensors: Sequence[Tensor]) -> list[float]:
    sizes = [norm_in_python(x) for x in tensors]
    return [norm(x).item() if n is None else n for x, n in zip(tensors, sizes, strict=True)]


def _in_range(sizes: list[float], tensors: Sequence[Tensor]) -> list[float]:
    """The norms, where sums in float32 are as good as any; the others are taken again."""
    if min(sizes) > _LOW and max(sizes) < _HIGH:  # a NaN that hides here stays one
        return sizes
    pairs = zip(tensors, sizes, strict=True)
    return [size if _LOW < size < _HIGH else norm(x).item() for x, size in pairs]


Measure = Callable[[Sequence[Tensor]], list[float]]


@functools.lru_cache(maxsize=64)
def _ways(shapes: tuple[torch.Size, ...]) -> list[tuple[Measure, list[int]]]:
    """Places of tensors that are measured together, and by what."""
    ways: list[tuple[Measure, list[int]]] = []
    rows: list[int] = []
    others: list[int] = []
    for places in by_shape(shapes):
        n = shapes[places[0]].numel()
        if n <= _SMALL:
            ways.append((_norms_of_alike, places))
        else:
            (others if n % _ROW else rows).extend(places)
    found = [*ways, (_norms_of_rows, rows), (_norms_one_by_one, others)]
    return [(measure, places) for measure, places in found if places]


@functools.lru_cache(maxsize=64)
def by_shape(shapes: tuple[torch.Size, ...]) -> list[list[int]]:
    """Places of tensors of one shape, of at most 64 each."""
    found: dict[torch.Size, list[int]] = {}
    for i, shape in enumerate(shapes):
        found.setdefault(shape, []).append(i)
    return [
        places[at : at + _TOGETHER]
        for places in found.values()
        for at in range(0, len(places), _TOGETHER)
    ]


def square_sums(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The sums of squares over some axes, all of them or all but one, in float64."""
    x = x.abs() if x.is_complex() else x
    if not is_fast(x):
        return torch.linalg.vector_norm(x, dim=axes, dtype=wide(x.device)).square()
    if len(axes) == x.ndim:
        return norm(x).square()
    found = _square_sums_of_rows(x) if axes == (1,) and x.ndim == 2 else x.square().sum(axes)
    found = found.double()
    doubtful = ~((found > _LOW**2) & (found < _HIGH**2))
    if doubtful.any():
        (kept,) = set(range(x.ndim)).difference(axes)
        of_these = doubtful.nonzero().squeeze(1)
        again = x.index_select(kept, of_these)
        norms = torch.linalg.vector_norm(again, dim=axes, dtype=torch.float64)
        found[of_these] = norms.square()
    return found


def _square_sums_of_rows(x: Tensor) -> Tensor:
    """The sums of squares over the last axis of two, without a copy of all squares."""
    n, length = x.shape
    if n and length > _ROW and length % _ROW == 0:
        parts = torch.linalg.vector_norm(x.reshape(n, -1, _ROW), dim=2)
        return parts.square().sum(1, dtype=torch.float64)
    return torch.linalg.vector_norm(x, dim=1).square() if length <= _ROW else x.square().sum(1)


def in_unit(x: Tensor, axes: tuple[int, ...] = ()) -> tuple[Tensor, Tensor]:
    """``x`` divided by a power of two, so that products of it stay in range, and that power.

    On the CPU, what is in range as it is stays as it is: the pass over all elements is saved.

    Args:
        x: The numbers.
        axes: Those that share a power of two, all by default; they are kept with a size of 1.
    """
    size = largest(x, axes)
    if is_fast(x):
        low, high = torch.aminmax(size)
        if low.item() > _LOW and high.item() < _HIGH:
            return x, torch.ones_like(size)
    unit = _power_at_or_below(size)
    return x / unit, unit


def power_of_two(x: Tensor) -> Tensor:
    """The power of two at or below the largest absolute value of ``x``, as a scalar.

    Dividing by it is exact, and the products of what is left stay in range. It is the smallest
    normal number for zeros, 1 where something is not finite.
    """
    return _power_at_or_below(largest(x))


def largest(x: Tensor, axes: tuple[int, ...] = ()) -> Tensor:
    """The largest absolute value over some axes, which are kept with a size of 1, or of all.

    NaN where one is; 0 of nothing.
    """
    if not x.numel():
        kept = [1 if i - x.ndim in axes else n for i, n in enumerate(x.shape)]
        return x.new_zeros(kept if axes else ())
    if is_compiling():
        return x.abs().amax(axes, bool(axes))
    # Without an axis torch has both in one pass; neither way makes a copy for absolute values.
    low, high = (x.amin(axes, True), x.amax(axes, True)) if axes else torch.aminmax(x)
    return torch.maximum(low.abs(), high.abs())


def _power_at_or_below(size: Tensor) -> Tensor:
    bits, exponent, end = _EXPONENTS[size.dtype]
    power = (size.view(bits) & exponent).view(size.dtype)
    return torch.where(power < torch.inf, power.clamp(2.0**-end, 2.0**end), 1)


def pieces(x: Tensor) -> Iterator[Tensor]:
    """All elements, in flat pieces: what is computed of one does not have to go to memory."""
    yield from x.reshape(-1).split(_PIECE)


def is_fast(x: Tensor) -> bool:
    """True if sums may be taken in float32 first, and checked on the host afterwards."""
    if is_compiling():
        return False
    # On other devices a look at the result would wait for it.
    return x.dtype is torch.float32 and x.is_cpu and not x.is_neg()
