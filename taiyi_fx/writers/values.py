"""The value of a record as a number, as a picture, in float64, and for JSON."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from taiyi_fx.records.json_number import json_number
from taiyi_fx.records.record import Record, Value


def json_value(value: Any) -> Any:  # what json.loads may return
    """A value for JSON: a number, or a nested list of numbers.

    JSON has neither NaN nor Inf: they become the texts ``"NaN"``, ``"Infinity"`` and
    ``"-Infinity"``, which ``float`` and JavaScript's ``Number`` take. A complex tensor gets a
    further axis, of real and imaginary part.
    """
    if isinstance(value, Tensor):
        x = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
        x = x.to(torch.float64) if x.is_floating_point() else x
        values = x.tolist()
        return values if _is_finite(x) else json_value(values)
    if isinstance(value, list):
        return [json_value(part) for part in value]
    return json_number(value) if isinstance(value, float) else value


def _is_finite(x: Tensor) -> bool:
    return not x.is_floating_point() or bool(x.isfinite().all())


def number(value: Value) -> float | int | None:
    """A value as a number, also one of a tensor without axes; None for a tensor with axes."""
    if not isinstance(value, Tensor):
        return value
    if value.ndim:
        return None
    return value.abs().item() if value.is_complex() else value.item()


def doubles(x: Tensor) -> Tensor:
    """The elements of a tensor in float64; complex ones become their absolute values."""
    return (x.abs() if x.is_complex() else x).to(torch.float64)


def as_image(record: Record, images: Collection[str]) -> Tensor | None:
    """The tensor of a record as a picture; None where its quantity gives no pictures."""
    value = record.value
    if isinstance(value, Tensor) and value.ndim == 2 and record.quantity in images:
        return doubles(value) if value.numel() else None
    return None
