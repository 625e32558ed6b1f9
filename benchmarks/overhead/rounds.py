"""The time of each tool's steps, taken in turn.

What slows a shared machine down lasts longer than a step, so every tool takes a step (or a block
of steps) in each round, in an order that changes from round to round, and a tool's time is
compared with plain's in the same round. Where a step takes a millisecond, a tool takes several in
turn, as a training does: after each the code of all other tools would be in the caches in place of
its own. The time is the process's on the CPU, over all of its threads: other processes count only
by what they do to the caches. Wall time is kept beside it.

Young garbage is collected within the time of the step that made it, so that each pays for its own
and none for another's; what survived a round is looked at between rounds.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch

from benchmarks.overhead.training import Training


class Spent(NamedTuple):
    """Nanoseconds of one step or block: the process's on the CPU (or the GPU's), and the wall's."""

    compute: int
    wall: int


def interleaved(
    trainings: Mapping[str, Training],
    rounds: int,
    block: int = 1,
    seed: int = 0,
    *,
    turn: int = 1,
) -> dict[str, list[Spent]]:
    """What each training spent.

    Args:
        trainings: The trainings.
        rounds: How often each is measured.
        block: The steps that are measured at once.
        seed: Of the order in which the trainings take turns.
        turn: How often one is measured before the next is.
    """
    order, generator = list(trainings), random.Random(seed)
    spent: dict[str, list[Spent]] = {name: [] for name in order}
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for begin in range(0, rounds, turn):
            generator.shuffle(order)
            for name in order:
                for _ in range(min(turn, rounds - begin)):
                    spent[name].append(_timed(trainings[name], block))
            gc.collect(1)
    finally:
        gc.enable()
        gc.unfreeze()
    return spent


def _timed(training: Training, block: int) -> Spent:
    def run() -> None:
        training.run(block)
        gc.collect(0)

    return _on_gpu(run) if training.batch[0].is_cuda else _on_cpu(run)


def _on_cpu(run: Callable[[], None]) -> Spent:
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    run()
    return Spent(time.process_time_ns() - cpu, time.perf_counter_ns() - wall)


def _on_gpu(run: Callable[[], None]) -> Spent:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    wall = time.perf_counter_ns()
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return Spent(int(1e6 * start.elapsed_time(end)), time.perf_counter_ns() - wall)
