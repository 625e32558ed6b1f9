"""The size of an optimizer's step, and what of it the parameter's format takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.reductions.rows import count
from taiyi_fx.reductions.sums import norm, norm_of_both


class StepValue(NamedTuple):
    """Finished `StepOfParameter`.

    Attributes:
        n: The number of elements.
        norm: The Euclidean norm of the step.
        moving: The number of elements whose step is not zero.
        lost: The number of those that are the same after it, rounded to the parameter's format.
    """

    n: Tensor
    norm: Tensor
    moving: Tensor
    lost: Tensor


@dataclass(frozen=True)
class StepOfParameter:
    """The size of a step, and how many elements of the parameter it leaves as they were.

    Cost: about 28 passes, most of which form the step in float32 or wider

    Attributes:
        max_elements: Look at so many leading elements alone; of a parameter that several ranks
            hold, at so many of each rank's part. ``None``: all.
    """

    max_elements: int | None = None
    is_over_elements: ClassVar[bool] = True

    def __post_init__(self) -> None:
        bound = self.max_elements
        if bound is not None and (not isinstance(bound, int) or bound < 1):
            raise ValueError(f"max_elements must be a positive whole number, not {bound!r}")

    def measure_pair(self, x: Tensor, g: Tensor) -> State:
        """The statistic of a parameter ``x`` and the step ``g``, which is subtracted from it."""
        if x.is_complex():
            x = torch.view_as_real(x.resolve_conj())
        if self.max_elements is not None:
            x, g = (t.reshape(-1)[: self.max_elements] for t in (x, g))
        x = x.to(g.device)
        # Differences, as a comparison takes longer than counting what is not zero.
        moving = torch.count_nonzero(g)
        moved = torch.count_nonzero((x - g).to(x.dtype).sub_(x))
        return count(g.numel(), g), norm(g), moving, (moving - moved).clamp_(min=0)

    def merge(self, a: State, b: State) -> State:
        return a[0] + b[0], norm_of_both(a[1], b[1]), a[2] + b[2], a[3] + b[3]

    def scale(self, state: State, factor: float) -> State:
        return state[0], state[1] * abs(factor), *state[2:]

    def finish(self, state: State) -> StepValue:
        return StepValue(*state)
