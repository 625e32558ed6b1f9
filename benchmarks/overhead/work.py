"""What is read, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from benchmarks.overhead.models import probed

Series = tuple[str, str]
"""A module's name and a quantity's."""

Values = Mapping[Series, float]

NORMS = ("InputSndNorm", "OutputGradSndNorm", "WeightNorm", "WeightGradNorm")
CONDITION = ("InputCovCondition",)


@dataclass(frozen=True)
class Work:
    """What every tool has to do.

    Attributes:
        title: What tables call it.
        quantities: In taiyi_fx's words, of every layer that is read.
        interval: Steps from one due step to the next.
        block: How many steps are measured at once. More than one where a tool computes beside
            the training: what one step leaves to be done is then paid by the same tool.
    """

    title: str
    quantities: tuple[str, ...]
    interval: int = 1
    block: int = 1

    def is_due(self, step: int) -> bool:
        """Whether there is anything to read at a step."""
        return step % self.interval == 0

    def cfg(self, model: nn.Module) -> dict[str, list[list[str]]]:
        """The configuration of taiyi_fx that asks for it."""
        entries = [[name, f"linear({self.interval}, 0)"] for name in self.quantities]
        return dict.fromkeys(probed(model), entries)

    def series(self, model: nn.Module) -> set[Series]:
        """Everything that a due step has to record."""
        return {(name, quantity) for name in probed(model) for quantity in self.quantities}


WORKS = {
    "q1": Work("Norms of inputs, output gradients, weights, weight gradients, each step", NORMS),
    "q2": Work("The same norms, every 10 steps", NORMS, interval=10),
    "q3": Work("Condition numbers of inputs, every 10 steps", CONDITION, interval=10, block=10),
}
