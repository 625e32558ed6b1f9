"""Steps of training as strategies: micro-batches, forwards that don't count, schedules, scales."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

Aside = Literal["", "no_grad", "eval"]


@dataclass(frozen=True)
class Step:
    """One step of training: micro-batches, scale, and whether it is due.

    Attributes:
        sizes: How many samples each of its micro-batches has.
        is_due: True if quantities are due at it.
        grad_scale: The factor of the loss.
        aside: A forward that must not count, before the first micro-batch: under
            ``torch.no_grad()`` or in evaluation mode, or none.
    """

    sizes: tuple[int, ...]
    is_due: bool = True
    grad_scale: float = 1.0
    aside: Aside = ""

    @property
    def rows(self) -> int:
        """The number of samples in the step."""
        return sum(self.sizes)


@st.composite
def splits(draw: st.DrawFn, rows: int) -> tuple[int, ...]:
    """Sizes of micro-batches that are ``rows`` together: whole, or in up to four parts."""
    cuts = draw(st.sets(st.integers(1, rows - 1), max_size=3)) if rows > 1 else set()
    return tuple(b - a for a, b in itertools.pairwise(sorted({0, rows, *cuts})))


@st.composite
def training_steps(draw: st.DrawFn, *, max_steps: int = 4, max_rows: int = 12) -> tuple[Step, ...]:
    """Draws sequences of steps, the last of which is due.

    Args:
        draw: Hypothesis's own.
        max_steps: How many there are at most.
        max_rows: How many samples each has at most.
    """
    rows = draw(st.lists(st.integers(1, max_rows), min_size=1, max_size=max_steps))
    last = len(rows) - 1
    return tuple(draw(one_step(n, is_last=i == last)) for i, n in enumerate(rows))


@st.composite
def one_step(draw: st.DrawFn, rows: int, *, is_last: bool, is_scaled: bool = True) -> Step:
    """Draws a step of so many samples: always due if it is the last, scaled only if it may be."""
    return Step(
        sizes=draw(splits(rows)),
        is_due=is_last or not draw(st.booleans()),
        grad_scale=draw(st.sampled_from((1.0, 2.0, 0.5))) if is_scaled else 1.0,
        aside=draw(st.sampled_from(("", "no_grad", "eval"))),
    )
