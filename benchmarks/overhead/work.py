"""What is read, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from benchmarks.overhead.models import probed
from taiyi_fx.config.presets import Part, fitting
from taiyi_fx.config.presets.stock import SCHEDULE
from taiyi_fx.schedule import Schedule, parse_schedule

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


_PRESET = ("what a preset asks for",)


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
        schedule: The steps that are due, if not every `interval`-th.
        is_preset: Whether it is what `instrument` asks for without a configuration. Then neither
            are values compared.
        cadence: The schedule in place of the preset's own.
        first_step: The number of the first step.
        warms_up: Whether there are steps before the first that counts.
    """

    title: str
    quantities: tuple[str, ...]
    interval: int = 1
    block: int = 1
    by_class: Mapping[type[nn.Module], list[list[str]]] | None = None
    schedule: Schedule | None = None
    is_preset: bool = False
    cadence: str | None = None
    first_step: int = 0
    warms_up: bool = True

    @property
    def is_compared(self) -> bool:
        """Whether values are compared with a reference."""
        return self.by_class is None and not self.is_preset

    def is_due(self, step: int) -> bool:
        """Whether there is anything to read at a step."""
        if self.schedule is not None:
            return self.schedule.is_due(step)
        return step % self.interval == 0

    def cfg(self, model: nn.Module) -> Any:
        """The configuration of taiyi_fx that asks for it."""
        if self.is_preset:
            return None if self.cadence is None else _preset_at(model, self.cadence)
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


def _preset_at(model: nn.Module, cadence: str) -> list[Part]:
    """What the preset that fits a model asks for, at other steps."""
    parts: list[Part] = []
    for part in fitting(model):
        entries = [
            [name, cadence if schedule == SCHEDULE else schedule, *options]
            for name, schedule, *options in part.entries
        ]
        parts.append(replace(part, entries=tuple(entries)))
    return parts


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
    "preset": Work(
        "Without a configuration: later on, when it is read every 100 steps",
        _PRESET,
        interval=100,
        is_preset=True,
        first_step=2000,
    ),
    "preset-often": Work(
        "Without a configuration, but read every 20 steps, as a look",
        _PRESET,
        interval=20,
        is_preset=True,
        cadence="every(20)",
        first_step=2000,
    ),
    "preset-start": Work(
        "Without a configuration: the first 200 steps, most densely read at the beginning",
        _PRESET,
        interval=200,
        schedule=parse_schedule(SCHEDULE),
        is_preset=True,
        warms_up=False,
    ),
}
