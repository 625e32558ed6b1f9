"""Tensors on the way to a loss of which one axis is taken for another."""

from __future__ import annotations

from typing import NamedTuple


class MistakenAxes(NamedTuple):
    """A tensor on the way to a loss of which one axis is taken for another.

    Attributes:
        module: The module whose parameters come next before it; empty if it is not known.
        given: The shape of the tensor.
        made: The shape of what is made of it.
    """

    module: str
    given: tuple[int, ...]
    made: tuple[int, ...]

    @property
    def source(self) -> str:
        """The tensor, in a sentence."""
        return f"what {self.module!r} makes" if self.module else "a tensor"
