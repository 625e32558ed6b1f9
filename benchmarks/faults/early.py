"""Looks at the first steps of healthy trainings: who stops at a finding must not stop there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.faults.fault import Healthy
from benchmarks.faults.score import SERIOUS
from benchmarks.faults.training import run
from taiyi_fx import Finding, Monitor

LOOKS = range(5, 41, 5)
"""The counts of steps after which one looks."""


def early_alarms(
    case: Healthy, *, is_preset: bool = True, looks: Sequence[int] = LOOKS
) -> list[tuple[int, Finding]]:
    """The alerts and warnings of looks at the first steps, each with the count of steps so far.

    Args:
        case: The training, of which no more steps are run than are looked at.
        is_preset: Watch it as `taiyi_fx.instrument` does without a configuration.
        looks: The counts of steps after which one looks.
    """
    alarms: list[tuple[int, Finding]] = []

    def look(step: int, monitor: Monitor) -> None:
        if step + 1 in looks:
            serious = (found for found in monitor.findings if found.severity in SERIOUS)
            alarms.extend((step + 1, found) for found in serious)

    training = case.training()
    steps = min(training.steps, max(looks))
    run(replace(training, steps=steps, is_preset=is_preset, after_step=[look]))
    return alarms
