"""The cost of a monitored step as a multiple of a plain one: medians of many rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch

_ROUNDS = (5, 30)
"""The smallest and the largest number of rounds."""
_SECONDS = 1.0
"""After this many no further round begins, once there are enough."""


def ratios(steps: Sequence[Callable[[], float]]) -> list[float]:
    """The median duration of each step, as a multiple of that of the first.

    They take turns, so that what else the machine does falls on all alike.

    Args:
        steps: Each runs one step, and returns how long that took.
    """
    least, most = _ROUNDS
    begun, rounds = time.perf_counter(), []
    while len(rounds) < least or (len(rounds) < most and time.perf_counter() - begun < _SECONDS):
        rounds.append([step() for step in steps])
    return [
        statistics.median(taken[i] / taken[0] for taken in rounds) for i in range(1, len(steps))
    ]


def timed(step: Callable[[], object]) -> float:
    """The duration of a step, in CPU time, which other processes do not lengthen.

    Where there is a GPU, by the clock, with what the step left to it to do.
    """
    has_gpu = torch.cuda.is_initialized()
    clock = time.perf_counter if has_gpu else time.process_time
    if has_gpu:
        torch.cuda.synchronize()
    begun = clock()
    step()
    if has_gpu:
        torch.cuda.synchronize()
    return clock() - begun
