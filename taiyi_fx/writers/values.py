"""What a record holds: a number, a picture, a tensor; and all of them as text takes them."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from taiyi_fx.records.record import Record, Value

_WORDS = {math.inf: "Infinity", -math.inf: "-Infinity"}


def plain(value: Any) -> Any:  # what json.loads may return
    """A value as JSON takes it: numbers, and lists of them.

    JSON has no NaN and no Inf: they are the texts ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``,
    which ``float`` and JavaScript's ``Number`` take. A complex tensor has a further axis, of real
    and imaginary part.
    """
    if isinstance(value, Tensor):
        x = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
        x = x.to(torch.float64) if x.is_floating_point() else x
        values = x.tolist()
        return values if _is_finite(x) else plain(values)
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return _WORDS.get(value, "NaN")
    return value


def _is_finite(x: Tensor) -> bool:
    return not x.is_floating_point() or bool(x.isfinite().all())


def number(value: Value) -> float | int | None:
    """The number that a value is, also as a tensor without axes; None for a tensor with axes."""
    if not isinstance(value, Tensor):
        return value
    if value.ndim:
        return None
    return value.abs().item() if value.is_complex() else value.item()


def doubles(x: Tensor) -> Tensor:
    """A tensor's elements in float64, complex ones by their absolute value."""
    return (x.abs() if x.is_complex() else x).to(torch.float64)


def as_image(record: Record, images: Collection[str]) -> Tensor | None:
    """The picture that a record holds, if its quantity is one of those that give pictures."""
    value = record.value
    if isinstance(value, Tensor) and value.ndim == 2 and record.quantity in images:
        return doubles(value) if value.numel() else None
    return None
