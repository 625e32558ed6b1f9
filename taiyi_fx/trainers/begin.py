"""The start of a training: finds its monitor, and sets its step and its writers."""

from __future__ import annotations

import os
from collections.abc import Sequence

from torch import nn

from taiyi_fx.instrumented import monitor_of
from taiyi_fx.monitor import Monitor
from taiyi_fx.writers.protocol import Writer
from taiyi_fx.writers.store import Store


def begin(model: nn.Module, step: int, writers: list[Writer]) -> Monitor:
    """The monitor of a model, set to the step at which training begins.

    Args:
        model: The model to train, wrapped or not.
        step: The number of optimizer steps before the checkpoint that is resumed from.
        writers: The monitor's writers from here on; the list is emptied, as each begins once.

    Raises:
        LookupError: No part of the model is instrumented.
        ValueError: Several are; writers are open that expect another step; or a finding is to skip
            a step, which a trainer does not leave out.
        Exception: Any that a writer raises when it is opened.
    """
    monitor = monitor_of(model)
    if monitor.is_writing and monitor.next_step != step:
        raise ValueError(
            f"training begins at step {step}, but the monitor's writers are open and expect step "
            f"{monitor.next_step}: give writers to the trainer's callback instead of instrument, "
            f"or instrument with start_step={step}"
        )
    if monitor.can_skip:
        raise ValueError(
            'on_finding="skip" is for a loop of your own, which leaves out optimizer.step() where '
            'monitor.should_skip is true; a trainer can be stopped: on_finding="stop"'
        )
    monitor.start_at(step)
    while writers:
        monitor.add_writer(writers.pop(0))
    return monitor


def writers_of(
    run: str | os.PathLike[str] | None, writers: Sequence[Writer], *, overwrite: bool = False
) -> list[Writer]:
    """All writers of a callback; that of its run comes first.

    Raises:
        ValueError: A run is to be replaced, but there is none.
    """
    if run is None:
        if overwrite:
            raise ValueError("overwrite is of a run: give its folder as run=")
        return [*writers]
    return [Store(run, overwrite=overwrite), *writers]
