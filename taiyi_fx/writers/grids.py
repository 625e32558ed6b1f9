"""What pictures are drawn of: a quantity's numbers as modules x steps, and vectors over steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

import numpy as np
from torch import Tensor

from taiyi_fx.matching import suggestion
from taiyi_fx.passes.ir import Mode
from taiyi_fx.record import Records, Series, Value
from taiyi_fx.writers.values import doubles, number

_LARGEST = 1e300
"""Larger numbers are drawn as this."""


class Source(Protocol):
    """Where pictures are drawn from: `Records`, or whatever else has their ``series()``."""

    def series(self) -> Mapping[Series, Mapping[int, Value]]:
        """Values by step, for each pair of a module and a quantity."""
        ...


class Grid(NamedTuple):
    """A quantity's numbers.

    Attributes:
        modules: In the order of their first record.
        steps: All steps at which one of them has a number, in order.
        values: Modules x steps; NaN too where there is no record.
        there: Modules x steps: whether there is a record.
    """

    modules: list[str]
    steps: np.ndarray
    values: np.ndarray
    there: np.ndarray


def grid_of(source: Source, quantity: str, mode: Mode) -> Grid:
    """A quantity's numbers of all modules.

    Raises:
        LookupError: There are none.
    """
    rows: dict[str, dict[int, float]] = {}
    found = _series(source, mode)
    for (module, name), values in found.items():
        numbers = {step: number(value) for step, value in values.items()}
        row = {step: float(n) for step, n in numbers.items() if n is not None}
        if name == quantity and row:
            rows[module] = row
    if not rows:
        raise LookupError(nothing("numbers", quantity, (name for _, name in found)))
    steps = sorted(set().union(*rows.values()))
    values = np.array([[row.get(step, np.nan) for step in steps] for row in rows.values()])
    there = np.array([[step in row for step in steps] for row in rows.values()])
    return Grid(list(rows), np.array(steps), _drawable(values), there)


def vectors_of(
    source: Source, quantity: str, module: str, mode: Mode
) -> tuple[list[int], list[np.ndarray]]:
    """A quantity's vectors of one module, flattened, and their steps in order.

    Raises:
        LookupError: There are none.
    """
    found = _series(source, mode)
    values = found.get((module, quantity), {})
    vectors = {s: v for s, v in sorted(values.items()) if isinstance(v, Tensor) and v.numel() > 1}
    if not vectors:
        near = nothing("vectors", quantity, (name for _, name in found))
        raise LookupError(f"{near} They are looked for at the module {module!r}")
    return list(vectors), [_flat(v) for v in vectors.values()]


def nothing(what: str, quantity: str, names: Iterable[str]) -> str:
    """Says that there is nothing of a quantity, and what it may have been meant."""
    return f"there are no {what} of {quantity!r}.{suggestion(quantity, sorted(set(names)))}"


def _series(source: Source, mode: Mode) -> Mapping[Series, Mapping[int, Value]]:
    # Records of both modes have series of the same names.
    return (source.select(mode=mode) if isinstance(source, Records) else source).series()


def _flat(x: Tensor) -> np.ndarray:
    return _drawable(doubles(x).reshape(-1).numpy())


def _drawable(x: np.ndarray) -> np.ndarray:
    # matplotlib adds margins, which may not be infinite.
    return np.where(np.isfinite(x), x.clip(-_LARGEST, _LARGEST), x)
