"""Numbers of the user's own: losses and metrics, as series of the model itself."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from typing import SupportsIndex, cast

import torch
from torch import Tensor

from taiyi_fx.passes.ir import Mode
from taiyi_fx.reductions.sums import wide
from taiyi_fx.step.transfer import Column


def check_name_and_mode(name: object, mode: object) -> None:
    """Checks the name of a series, and the mode that it belongs to.

    Raises:
        TypeError: The name is not a string.
        ValueError: There is no such mode.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a series is a text, not {name!r}")
    if mode not in (None, "train", "eval"):
        raise ValueError(f"mode is 'train' or 'eval', not {mode!r}")


def logged(
    name: str, value: float | Tensor, step: int, mode: Mode, *, is_of_next: bool = False
) -> Column:
    """A number of the user's own at a step; a tensor is copied on its device.

    Args:
        name: The name of its series.
        value: The number.
        step: The step.
        mode: The mode that it belongs to.
        is_of_next: True if it belongs to the step that is tracked next.

    Raises:
        TypeError: The value is not a number.
        ValueError: The value has more than one element or more than 64 bits.
    """
    series = (("", name),)
    if not isinstance(value, Tensor):
        return Column(step, mode, series, series, _number(name, value), is_of_next)
    if value.is_complex():
        raise TypeError(f"{name!r}: the value has to be a real number, not {value!r}")
    if value.numel() != 1:
        raise ValueError(
            f"{name!r} has the shape {tuple(value.shape)}, but a series takes one number a "
            "step: reduce it first, as by .mean()"
        )
    return Column(step, mode, series, series, value.detach().reshape(1).clone(), is_of_next)


def folded(columns: Sequence[Column]) -> list[Column]:
    """Numbers that wait for a step, those of its micro-batches as one, their mean."""
    found: dict[Hashable, list[Column]] = {}
    for i, column in enumerate(columns):
        found.setdefault((column.of, column.mode) if column.is_of_next else i, []).append(column)
    return [same[0] if len(same) == 1 else _mean(same) for same in found.values()]


def _mean(columns: Sequence[Column]) -> Column:
    values = [column.values.to(wide(column.values.device)) for column in columns]
    on_one = {value.device for value in values}
    total = sum(values if len(on_one) == 1 else [value.cpu() for value in values])
    return columns[-1]._replace(values=total / len(columns))


def _whole(value: object) -> int | None:
    try:
        return operator.index(cast(SupportsIndex, value))
    except TypeError:  # as of an array of numpy, which has the method whatever it holds
        return None


def _number(name: str, value: float) -> Tensor:
    number = None if isinstance(value, bool) else _whole(value)
    if number is not None:
        if not -(2**63) <= number < 2**63:
            raise ValueError(f"{name!r}: {number} has more than 64 bits")
        return torch.tensor([number])
    if isinstance(value, (bool, float)) or hasattr(value, "__float__"):
        return torch.tensor([float(value)], dtype=torch.float64)
    raise TypeError(f"{name!r}: the value has to be a number, not {value!r}")
