"""Norm, mean, largest magnitude and count of non-finite elements, in one state of few numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import Numbers, State, States
from taiyi_fx.passes.probes.compiling import is_compiling
from taiyi_fx.passes.probes.slots import stacked
from taiyi_fx.reductions.rows import accumulated, count
from taiyi_fx.reductions.sums import axes_of_rows, by_shape, norm, wide

_BLOCK = 2**16
"""So many squares, added by BLAS in float32, leave an error of 1e-5 of constants, else of 1e-6."""
_LOW, _HIGH = 1e-24, 1e30
"""Between them no square that matters has left float32's range."""
_QUICK = frozenset((torch.float32, torch.float16, torch.bfloat16))


class SummaryValue(NamedTuple):
    """Finished `Summary`: norm, mean and largest magnitude of what is finite, and the rest's count.

    The mean is NaN where nothing is finite; norm and largest magnitude are then 0.
    """

    norm: Tensor
    mean: Tensor
    abs_max: Tensor
    non_finite: Tensor


@dataclass(frozen=True)
class Summary:
    """Norm, mean and largest magnitude of the finite elements, and the exact count of the others.

    Norms and means are right to 1e-5. A step's micro-batches, and calls that are merged, count as
    one tensor.

    Cost: four passes, two more where something is not finite
    """

    is_over_elements: ClassVar[bool] = True

    def measure(self, x: Tensor) -> State:
        x = accumulated(x)
        finite = x.isfinite()
        kept = torch.where(finite, x, 0)
        bad = _number_of(~finite)
        is_empty = not is_compiling() and not x.numel()
        largest = kept.new_zeros(()) if is_empty else kept.abs().amax()
        n = count(x.numel(), x) - bad
        return n, _total(kept), norm(kept), largest.to(wide(x.device)), bad

    def measure_scalar(self, x: Tensor) -> Numbers | None:
        """The same in numbers of Python, where that takes less time and all is finite."""
        if not x.is_cpu or x.dtype not in _QUICK or x.is_neg() or not x.numel():
            return None
        # Code of torch is cold after a layer's own work, so what counts is the number of its
        # functions that are called: four looks at a number take less time than one at all of them.
        flat = accumulated(x).reshape(-1)
        n = flat.numel()
        if n <= _BLOCK:
            square = torch.dot(flat, flat).item()
        else:
            square = sum([torch.dot(part, part).item() for part in flat.split(_BLOCK)])
        total = flat.sum().item()
        if not (math.isfinite(total) and _LOW < square < _HIGH):
            return None
        # The two ends apart take less time than together.
        return n, total, math.sqrt(square), max(flat.amax().item(), -flat.amin().item()), 0

    def measure_many(self, tensors: Sequence[Tensor]) -> States:
        """The same of each of several tensors."""
        if not (tensors[0].is_cpu and tensors[0].dtype is torch.float32):
            return stacked([self.measure(x) for x in tensors])
        found: dict[int, Numbers] = {}
        for places in by_shape(tuple(x.shape for x in tensors)):
            every = _of_alike([tensors[i] for i in places])
            found.update(
                (i, one or _in_python(self.measure(tensors[i])))
                for i, one in zip(places, every, strict=True)
            )
        return tuple(zip(*(found[i] for i in range(len(tensors))), strict=True))

    def merge(self, a: State, b: State) -> State:
        (n_a, total_a, norm_a, most_a, bad_a), (n_b, total_b, norm_b, most_b, bad_b) = a, b
        most = torch.maximum(most_a, most_b)
        return n_a + n_b, total_a + total_b, torch.hypot(norm_a, norm_b), most, bad_a + bad_b

    def scale(self, state: State, factor: float) -> State:
        n, total, size, most, bad = state
        return n, total * factor, size * abs(factor), most * abs(factor), bad

    def finish(self, state: State) -> SummaryValue:
        n, total, size, most, bad = state
        return SummaryValue(size, total / n, most, bad)


def _number_of(claims: Tensor) -> Tensor:
    """The number of claims that are true."""
    axes = axes_of_rows(claims) if is_compiling() and claims.is_cpu else None
    if axes is None:
        return claims.sum()
    return claims.to(torch.float32).sum(axes).sum(dtype=torch.float64).to(torch.int64)


def _total(x: Tensor) -> Tensor:
    """The sum of all elements, as a scalar of the widest type."""
    # As in `norm`: a sum of float32 in float64 takes inductor ten times as long.
    quick = is_compiling() and x.is_cpu and x.dtype is torch.float32
    axes = axes_of_rows(x) if quick else None
    return x.sum(dtype=wide(x.device)) if axes is None else x.sum(axes).double().sum()


def _of_alike(tensors: Sequence[Tensor]) -> list[Numbers | None]:
    """The numbers of tensors of one shape; None of those with something that is not usual."""
    n = tensors[0].numel()
    if not n:
        return [None] * len(tensors)
    rows = torch.stack(list(tensors)).reshape(len(tensors), n)
    low, high = torch.aminmax(rows, dim=1)
    parts = rows.sum(1), torch.linalg.vector_norm(rows, dim=1), torch.maximum(-low, high)
    return [
        (n, total, size, most, 0) if math.isfinite(total) and _LOW < size * size < _HIGH else None
        for total, size, most in zip(*(part.tolist() for part in parts), strict=True)
    ]


def _in_python(state: State) -> Numbers:
    return tuple(part.item() for part in state)
