"""Facts about a tensor at an operation: shape, type, and a few numbers of its elements."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TensorFacts:
    """The facts about one tensor that an operation took or gave.

    Attributes:
        shape: Its sizes.
        dtype: Its type, such as ``"float16"``.
        device: Its device.
        nan: The number of NaN elements.
        inf: The number of infinite elements.
        smallest: The least of its finite elements; None if there is none.
        largest: The greatest of its finite elements; None if there is none.
        mean: The mean of its finite elements, in float64; None if there is none.
    """

    shape: tuple[int, ...]
    dtype: str
    device: str
    nan: int
    inf: int
    smallest: float | None
    largest: float | None
    mean: float | None

    @property
    def is_finite(self) -> bool:
        """True if no element is NaN or Inf."""
        return not (self.nan or self.inf)

    def __str__(self) -> str:
        size = "×".join(map(str, self.shape)) or "one number"
        counts = [f"{n} {what}" for n, what in ((self.nan, "NaN"), (self.inf, "Inf")) if n]
        span = "" if self.mean is None else f"{self.smallest:.4g} to {self.largest:.4g}"
        return f"{self.dtype} {size}: {', '.join([*counts, *([span] if span else [])])}"


def facts_of(x: Tensor) -> TensorFacts:
    """The facts about a tensor, of any type that holds numbers; magnitudes of complex ones."""
    kind = str(x.dtype).removeprefix("torch.")
    return TensorFacts(tuple(x.shape), kind, str(x.device), *_statistics(x.detach()))


def _statistics(x: Tensor) -> tuple[int, int, float | None, float | None, float | None]:
    """NaN, Inf, the least finite element, the greatest, and their mean."""
    if _has_aminmax(x) and x.numel():  # where all are finite, two passes do, instead of a dozen
        low, high = map(float, torch.aminmax(x))
        if math.isfinite(low) and math.isfinite(high):
            return 0, 0, low, high, float(x.mean(dtype=torch.float64))
    values = _numbers(x)
    counts = int(values.isnan().sum()), int(values.isinf().sum())
    finite = values[values.isfinite()]
    if not finite.numel():
        return *counts, None, None, None
    return *counts, float(finite.min()), float(finite.max()), float(finite.mean())


def has_non_finite(x: Tensor) -> bool:
    """True if an element is NaN or Inf; false for types that have neither."""
    if not (x.is_floating_point() or x.is_complex()) or not x.numel() or x.is_meta:
        return False
    values = _numbers(x.detach()) if not _has_aminmax(x) else x.detach()
    low, high = torch.aminmax(values)
    return not (math.isfinite(float(low)) and math.isfinite(float(high)))


def has_nan(x: Tensor) -> bool:
    """True if an element is NaN."""
    is_one = x.is_floating_point() or x.is_complex()
    return is_one and bool(_numbers(x.detach()).isnan().any())


def _has_aminmax(x: Tensor) -> bool:
    return x.dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def _numbers(x: Tensor) -> Tensor:
    """The elements as float64, where that has them all."""
    return x.abs().double() if x.is_complex() else x.double()
