"""A recorded value compared with that of a reference."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

Floor = Any  # a number, an array, or a dictionary of suffix to these: whatever a reference computes


def disagreement(found: Any, expected: Any, *, rel: float, floor: Floor = 0.0) -> str | None:
    """A sentence on how a recorded value is wrong; None if it is right.

    Args:
        found: A value, a dictionary of suffix to value, or None for no record.
        expected: The same by the reference. Where it is finite the value must be within
            ``rel`` and ``floor``; where it is NaN or infinite, the value must not be finite.
            Whole numbers must be equal.
        rel: The relative error allowed.
        floor: The absolute error allowed beside it; infinite where anything is right.
    """
    found, expected = by_suffix(found), by_suffix(expected)
    if set(found) != set(expected):
        return f"recorded {_listed(found)}, but the reference has {_listed(expected)}"
    for suffix, value in expected.items():
        allowed = floor.get(suffix, 0.0) if isinstance(floor, Mapping) else floor
        problem = _difference(found[suffix], value, rel, allowed)
        if problem:
            return f"{suffix}: {problem}" if suffix else problem
    return None


def assert_agrees(found: Any, expected: Any, *, rel: float, floor: Floor = 0.0) -> None:
    """Fails if a recorded value is wrong; see `disagreement`.

    Raises:
        AssertionError: The value is wrong; says how.
    """
    problem = disagreement(found, expected, rel=rel, floor=floor)
    if problem:
        raise AssertionError(problem)


def by_suffix(value: Any) -> Mapping[str, Any]:
    """The parts of a value, by suffix; empty for None."""
    if value is None:
        return {}
    if isinstance(value, tuple):  # what a reduction finishes as
        names = getattr(value, "_fields", range(len(value)))
        return {str(name): part for name, part in zip(names, value, strict=True)}
    if dataclasses.is_dataclass(value):  # the same, with what it answers
        kinds = (property, functools.cached_property)
        names = [
            name for name in dir(type(value)) if isinstance(vars(type(value)).get(name), kinds)
        ]
        return {name: getattr(value, name) for name in names}
    return value if isinstance(value, Mapping) else {"": value}


def largest(value: Any) -> dict[str, float]:
    """The largest finite magnitude in each part of a value."""
    found = {}
    for suffix, part in by_suffix(value).items():
        sizes = np.abs(as_array(part).astype(float))
        found[suffix] = float(np.max(sizes[np.isfinite(sizes)], initial=0.0))
    return found


def _listed(values: Mapping[str, Any]) -> str:
    names = ", ".join(repr(s) if s else "a value" for s in values)
    return names or "nothing"


def _difference(found: Any, expected: Any, rel: float, floor: Any) -> str | None:
    f, e = as_array(found), as_array(expected)
    if f.shape != e.shape:
        return f"recorded an array of shape {f.shape}, but the reference is one of {e.shape}"
    allowed = np.broadcast_to(as_array(floor).astype(float), e.shape)
    if e.dtype.kind not in "iub":
        with np.errstate(all="ignore"):
            allowed = allowed + rel * np.abs(e)
    f, e = f.astype(float), e.astype(float)
    with np.errstate(all="ignore"):
        is_right = np.where(np.isfinite(e), np.abs(f - e) <= allowed, ~np.isfinite(f))
    is_right |= np.isposinf(np.broadcast_to(as_array(floor).astype(float), e.shape))
    if is_right.all():
        return None
    at = tuple(int(i) for i in np.argwhere(~is_right)[0])
    where = f" at {at}" if at else ""
    bound = f" within {allowed[at]:.3g}" if np.isfinite(e[at]) else " (not finite)"
    return f"recorded {float(f[at])!r}{where}, but the reference is {float(e[at])!r}{bound}"


def as_array(value: Any) -> np.ndarray:
    """The numbers of a tensor, or of anything like an array."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        if value.is_floating_point():
            value = value.double()  # numpy has no bfloat16
        return value.numpy()
    return np.asarray(value)
