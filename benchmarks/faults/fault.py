"""What a fault and a healthy training are, and how a function is registered as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from benchmarks.faults.tasks import build
from benchmarks.faults.training import Training

Change = Callable[[Training], object]
Part = Literal["tuning", "held_out"]

WHOLE = ""
"""The culprit of faults that are no module's: the loss, the data, the optimizer."""


@dataclass(frozen=True)
class Fault:
    """A training with one planted fault.

    Attributes:
        name: That of its function.
        task: What is trained.
        plant: Changes the sound training.
        culprits: Names of the modules of which the first finding has to name one, as patterns, in
            which `{middle}` is the module that plays this part in the task.
        kinds: A regular expression of kinds that are as right, whichever module they name.
        notes: Whether a finding of the severity note will do, since the fault harms nothing.
        part: `tuning`, or `held_out` from those who make rules.
    """

    name: str
    task: str
    plant: Change
    culprits: tuple[str, ...]
    kinds: str | None = None
    notes: bool = False
    part: Part = "tuning"

    @property
    def label(self) -> str:
        """The name and the task, which together are no other's."""
        return f"{self.name}/{self.task}"

    def training(self) -> Training:
        """The faulty training, ready to run."""
        training = build(self.task)
        self.plant(training)
        return training


@dataclass(frozen=True)
class Healthy:
    """A training without fault.

    Attributes:
        name: That of its function.
        task: What is trained.
        change: Changes the task's own training to another sound one.
    """

    name: str
    task: str
    change: Change

    @property
    def label(self) -> str:
        """The name and the task, which together are no other's."""
        return f"{self.name}/{self.task}"

    part = "healthy"

    def training(self) -> Training:
        """The training, ready to run."""
        training = build(self.task)
        self.change(training)
        return training


FAULTS: list[Fault] = []
"""Those that were registered."""

HEALTHY: list[Healthy] = []
"""Those that were registered."""


def fault(
    tasks: str,
    *culprits: str,
    kinds: str | None = None,
    notes: bool = False,
    part: Part = "tuning",
) -> Callable[[Change], Change]:
    """Registers a function that plants a fault, for each of the tasks.

    Args:
        tasks: Names in `TASKS`, with spaces between.
        culprits: See `Fault`.
        kinds: See `Fault`.
        notes: See `Fault`.
        part: See `Fault`.
    """

    def register(plant: Change) -> Change:
        name = plant.__name__
        facts = (plant, culprits, kinds, notes, part)
        FAULTS.extend(Fault(name, task, *facts) for task in tasks.split())
        return plant

    return register


held_out = partial(fault, part="held_out")
"""Registers a fault that no rule may be tuned on."""


def healthy(tasks: str) -> Callable[[Change], Change]:
    """Registers a function that makes another sound training of each of the tasks."""

    def register(change: Change) -> Change:
        HEALTHY.extend(Healthy(change.__name__, task, change) for task in tasks.split())
        return change

    return register
