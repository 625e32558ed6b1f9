"""The module at which the calls of two runs part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from taiyi_fx.step_checks.calls import Call

IsRight = Callable[[Tensor, Tensor], bool]
"""Of a tensor of the first run, and the same one of the second: whether it is as it should be."""


class Blame(NamedTuple):
    """The place at which something begins.

    Attributes:
        module: The module.
        is_given: Whether what it is given is wrong already, by the code that calls it.
        is_beyond: Whether all modules are right.
    """

    module: str
    is_given: bool = False
    is_beyond: bool = False

    def __str__(self) -> str:
        if self.is_beyond:
            return "what the modules return is as it should be: it is between them and the loss"
        module = repr(self.module) if self.module else "the model"
        return f"it begins in what {module} is given" if self.is_given else f"it begins in {module}"


def first_wrong(before: Sequence[Call], after: Sequence[Call], is_right: IsRight) -> Blame:
    """The first call, in the order in which they return, with an output that is wrong."""
    for one, other in zip(before, after, strict=False):
        if one.module != other.module:
            break
        if not _are_right(one.outputs, other.outputs, is_right):
            return Blame(one.module, not _are_right(one.inputs, other.inputs, is_right))
    return Blame("", is_beyond=True)


def _are_right(one: Sequence[Tensor], other: Sequence[Tensor], is_right: IsRight) -> bool:
    return len(one) == len(other) and all(map(is_right, one, other))
