"""What is read, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from benchmarks.overhead.models import probed

Series = tuple[str, str]
"""A module's name and a quantity's."""

Values = Mapping[Series, float]

NORMS = ("InputSndNorm", "OutputGradSndNorm", "WeightNorm", "WeightGradNorm")
CONDITION = ("InputCovCondition",)

FIRST_LOOK: Mapping[type[nn.Module], list[list[str]]] = {
    nn.Module: [["NonFinite", "linear(0, 0)"], ["OutputGradNonFinite", "linear(0, 0)"]],
    nn.Linear: [
        ["OutputRMS", "linear(10, 0)"],
        ["OutputGradRMS", "linear(10, 0)"],
        ["WeightNorm", "linear(10, 0)"],
        ["UpdateRatio", "linear(10, 0)"],
        ["InputCovCondition50", "linear(100, 0)"],
    ],
    nn.ReLU: [["DeadNeuronRatio", "linear(100, 0)"]],
}
"""What `what-quantities-tell` in the documentation asks for to begin with."""


@dataclass(frozen=True)
class Work:
    """What every tool has to do.

    Attributes:
        title: What tables call it.
        quantities: In taiyi_fx's words, of every layer that is read.
        interval: Steps from one due step to the next.
        block: How many steps are measured at once. More than one where a tool computes beside
            the training: what one step leaves to be done is then paid by the same tool.
        by_class: What is asked of each class of modules, if not the quantities of every layer that
            is read. Its values are not compared.
    """

    title: str
    quantities: tuple[str, ...]
    interval: int = 1
    block: int = 1
    by_class: Mapping[type[nn.Module], list[list[str]]] | None = None

    def is_due(self, step: int) -> bool:
        """Whether there is anything to read at a step."""
        return step % self.interval == 0

    def cfg(self, model: nn.Module) -> Mapping[Any, list[list[str]]]:
        """The configuration of taiyi_fx that asks for it."""
        if self.by_class is not None:
            modules = list(model.modules())
            return {
                k: v for k, v in self.by_class.items() if any(isinstance(m, k) for m in modules)
            }
        entries = [[name, f"linear({self.interval}, 0)"] for name in self.quantities]
        return dict.fromkeys(probed(model), entries)

    def series(self, model: nn.Module) -> set[Series]:
        """Everything that a due step has to record."""
        return {(name, quantity) for name in probed(model) for quantity in self.quantities}


WORKS = {
    "q1": Work("Norms of inputs, output gradients, weights, weight gradients, each step", NORMS),
    "q2": Work("The same norms, every 10 steps", NORMS, interval=10),
    "q3": Work("Condition numbers of inputs, every 10 steps", CONDITION, interval=10, block=10),
    "first": Work(
        "The first look that the documentation proposes",
        tuple(name for entries in FIRST_LOOK.values() for name, _ in entries),
        interval=100,
        block=100,
        by_class=FIRST_LOOK,
    ),
}
