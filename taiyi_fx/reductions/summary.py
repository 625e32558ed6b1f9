"""Norm, mean, largest magnitude and count of non-finite elements, in one state of few numbers."""

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
from taiyi_fx.passes.probes.slots import stacked
from taiyi_fx.reductions.rows import accumulated, count
from taiyi_fx.reductions.sums import (
    by_shape,
    count_nonzero,
    is_on_gpu,
    largest,
    norm,
    norm_in_python,
    norm_of_both,
    sum_of,
    wide,
)

_BLOCK = 2**16
"""So many squares, added by BLAS in float32, leave an error of 1e-5 of constants, else of 1e-6."""
_LOW, _HIGH = 1e-12, 1e15
"""Norms between them: no square that matters has left float32's range."""
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

    Cost: four passes, two more where something is not finite; on a GPU with Triton one
    """

    is_over_elements: ClassVar[bool] = True

    def measure(self, x: Tensor) -> State:
        elements = elements_of(x)
        if elements is not None:
            return self.of_elements(elements)
        if not is_on_gpu(x):
            x = accumulated(x)
        if is_compiling():
            return _in_one_loop(x)
        kept = x.nan_to_num(0.0, 0.0, 0.0)
        size = count(x.numel(), x)
        bad = count_nonzero(x * 0) if is_on_gpu(x) else size - torch.eq(kept, x).sum()
        return size - bad, sum_of(kept), norm(kept), _largest(kept), bad

    def of_elements(self, elements: Elements) -> State:
        """The same of what one pass over a GPU's tensor told."""
        return *elements.finite, elements.bad

    def measure_scalar(self, x: Tensor) -> Numbers | None:
        """The same in numbers of Python, where that takes less time and all is finite."""
        if not x.is_cpu or x.dtype not in _QUICK or x.is_neg() or not x.numel():
            return None
        # Code of torch is cold after a layer's own work, so what counts is the number of its
        # functions that are called: four looks at a number take less time than one at all of them.
        flat = (x if x.dtype is torch.float32 else x.float()).reshape(-1)
        n = flat.numel()
        size = math.sqrt(torch.dot(flat, flat).item()) if n <= _BLOCK else norm_in_python(flat)
        total = flat.sum().item()
        if size is None or not (math.isfinite(total) and _LOW < size < _HIGH):
            return None
        # The two ends apart take less time than together.
        return n, total, size, max(flat.amax().item(), -flat.amin().item()), 0

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
        return n_a + n_b, total_a + total_b, norm_of_both(norm_a, norm_b), most, bad_a + bad_b

    def scale(self, state: State, factor: float) -> State:
        n, total, size, most, bad = state
        return n, total * factor, size * abs(factor), most * abs(factor), bad

    def finish(self, state: State) -> SummaryValue:
        n, total, size, most, bad = state
        return SummaryValue(size, total / n, most, bad)


def _in_one_loop(x: Tensor) -> State:
    """The same in compiled code: the compiler makes one loop of all these sums."""
    finite = x.abs() < torch.inf
    kept = torch.where(finite, x, 0)
    kind = wide(x.device)
    n = finite.sum()
    return n, kept.sum(dtype=kind), norm(kept), largest(kept).to(kind), count(x.numel(), x) - n


def _largest(x: Tensor) -> Tensor:
    """The largest magnitude of all elements, in `wide`; 0 of none."""
    if x.is_cpu or is_on_gpu(x):
        return largest(x).to(wide(x.device))
    return torch.linalg.vector_norm(x, torch.inf, dtype=wide(x.device))  # in one operation


def _of_alike(tensors: Sequence[Tensor]) -> list[Numbers | None]:
    """The numbers of tensors of one shape; None of those with something that is not usual."""
    n = tensors[0].numel()
    if not n:
        return [None] * len(tensors)
    rows = torch.stack(list(tensors)).reshape(len(tensors), n)
    low, high = torch.aminmax(rows, dim=1)
    parts = rows.sum(1), torch.linalg.vector_norm(rows, dim=1), torch.maximum(-low, high)
    return [
        (n, total, size, most, 0) if math.isfinite(total) and _LOW < size < _HIGH else None
        for total, size, most in zip(*(part.tolist() for part in parts), strict=True)
    ]


def _in_python(state: State) -> Numbers:
    return tuple(part.item() for part in state)
