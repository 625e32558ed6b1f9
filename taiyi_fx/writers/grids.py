"""Numbers as modules x steps, and vectors over steps, for pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.passes.ir import Mode
from taiyi_fx.records.grid import Grid

_LARGEST = 1e300
"""The largest number that is drawn; larger ones are drawn as this."""


class PictureSource(Protocol):
    """The data of a picture: `Records`, or a `Run`."""

    def grid(self, quantity: str, mode: Mode = "train") -> Grid:
        """A quantity's numbers of all modules, by step."""
        ...

    def tensors(
        self, module: str, quantity: str, mode: Mode = "train"
    ) -> Mapping[int, NDArray[Any]]:
        """The tensors of one series by step."""
        ...


def grid_of(source: PictureSource, quantity: str, mode: Mode) -> Grid:
    """A quantity's numbers of all modules, clipped so that they can be drawn.

    Raises:
        LookupError: There are none.
    """
    found = source.grid(quantity, mode)
    return found._replace(values=_drawable(found.values))


def vectors_of(
    source: PictureSource, quantity: str, module: str, mode: Mode
) -> tuple[list[int], list[NDArray[np.float64]]]:
    """A quantity's vectors of one module, flattened, and their steps in order.

    Raises:
        LookupError: There are none.
    """
    found = sorted(source.tensors(module, quantity, mode).items())
    vectors = {step: _flat(array) for step, array in found if array.size > 1}
    if not vectors:
        raise LookupError(f"{quantity!r} of {module!r} has tensors, but none of several numbers")
    return list(vectors), list(vectors.values())


def _flat(x: NDArray[Any]) -> NDArray[np.float64]:
    return _drawable((np.abs(x) if np.iscomplexobj(x) else x).astype(np.float64).reshape(-1))


def _drawable(x: NDArray[np.float64]) -> NDArray[np.float64]:
    # matplotlib adds margins, which may not be infinite.
    return np.where(np.isfinite(x), x.clip(-_LARGEST, _LARGEST), x)
