"""Faults beside their mended twins, and what the mistakes do."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch

from benchmarks.faults.fault import Fault
from benchmarks.faults.tasks import build
from benchmarks.faults.training import run

FACTOR = 1.2
"""How many times as bad a training has to be as its twin, to be hurt."""


def compare(
    faults: Iterable[Fault], certain: Collection[str], argv: Sequence[str] | None = None
) -> int:
    """Trains each fault that the command line names beside its mended twin, and prints both.

    Args:
        faults: Those that may be named.
        certain: Names of those that are certain by how a model is built, and hardly hurt in so
            few steps.
        argv: The command line's arguments.

    Returns:
        The exit status: 1 where a fault hurts neither the loss nor its author's figure, and is not
        among those that are certain.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("only", nargs="*", default=["*"], help="patterns of name/task")
    only = parser.parse_args(argv).only
    torch.set_num_threads(1)
    chosen = [fault for fault in faults if any(fnmatchcase(fault.label, o) for o in only)]
    hurts = [_told(fault, certain) for fault in chosen]
    print(f"{sum(hurts)} of {len(hurts)} faults hurt in these steps or are certain")
    return int(not all(hurts))


def outcome(fault: Fault, *, mended: bool) -> tuple[float, float]:
    """The mean of the last ten losses, and the author's figure, or NaN if there is none.

    Args:
        fault: Whose training it is.
        mended: Whether it is trained without the mistake.
    """
    training = build(fault.task)
    plant: Any = fault.plant
    figure = plant(training, mended=mended)
    watched = run(training)
    losses = watched.monitor.get_output()[""]["loss"]
    last = [losses[step] for step in sorted(losses)[-10:]]
    return sum(last) / len(last), math.nan if figure is None else figure(training.model)


def _told(fault: Fault, certain: Collection[str]) -> bool:
    begin = time.monotonic()
    (loss, figure), (sound_loss, sound_figure) = (
        outcome(fault, mended=mended) for mended in (False, True)
    )
    hurts = _is_worse(loss, sound_loss) or _is_worse(figure, sound_figure)
    mark = "hurts" if hurts else "built" if fault.name in certain else "-----"
    print(
        f"{mark} {fault.label:56} loss {sound_loss:9.4g} -> {loss:<9.4g} "
        f"figure {sound_figure:9.4g} -> {figure:<9.4g} {time.monotonic() - begin:5.1f} s",
        flush=True,
    )
    return mark != "-----"


def _is_worse(value: float, sound: float) -> bool:
    return math.isfinite(sound) and not value <= max(FACTOR * sound, sound + 0.02)
