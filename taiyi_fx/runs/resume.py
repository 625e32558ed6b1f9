"""The step at which a run goes on."""

from __future__ import annotations

import os

from taiyi_fx.runs.opening import open_run


def next_step(path: str | os.PathLike[str]) -> int:
    """The step after the last one of a run; 0 where there is no run.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged, or of a newer taiyi_fx.
    """
    try:
        run = open_run(path)
    except FileNotFoundError:
        return 0
    with run:
        steps = [span.last for span in run.spans().values()]
        return max([*steps, *(event.step for event in run.events)], default=-1) + 1
