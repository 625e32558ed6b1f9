"""What findings cost: the looks for them in a training, and all of them of a long one."""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch

import taiyi_fx
from benchmarks.faults.config import configuration
from benchmarks.overhead.models import CASES, loss_of
from taiyi_fx.monitor import Monitor
from taiyi_fx.watch import Watch

LOSSES = 6
"""The losses that the long trainings log."""


def main() -> None:
    """Prints what the watch takes of a GPT's training, and what findings of long ones take.

    The first is trained with all that rules look at read at each step, the others by a preset.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--of-long", type=int, nargs="*", default=[1_000, 4_000, 16_000])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    spent = _timed()
    begin = time.process_time()
    series = _train(asked.steps)
    whole = time.process_time() - begin
    print(f"{series} series at each of {asked.steps} steps of {1e3 * whole / asked.steps:.0f} ms")
    print(f"watch: {100 * sum(spent) / whole:.2f} % of the time, as process time of one thread")
    print(f"a step without a look: {1e6 * statistics.median(spent):.0f} us")
    print(f"the longest look: {1e3 * max(spent):.0f} ms")
    for steps in asked.of_long:
        monitor = _train_long(steps)
        found = statistics.median(_seconds_of_findings(monitor) for _ in range(5))
        print(f"all findings of {steps} steps of {LOSSES} losses: {1e3 * found:.0f} ms")


def _seconds_of_findings(monitor: Monitor) -> float:
    begin = time.process_time()
    _ = monitor.findings
    return time.process_time() - begin


def _timed() -> list[float]:
    """The times that the watch takes from here on, a step each."""
    spent: list[float] = []
    after = Watch.after

    def timed(*args: Any, **options: Any) -> Any:
        begin = time.process_time()
        found = after(*args, **options)
        spent.append(time.process_time() - begin)
        return found

    Watch.after = timed
    return spent


def _train(steps: int) -> int:
    torch.manual_seed(0)
    model, (x, y) = CASES["gpt"].build(), CASES["gpt"].batch()
    watched = taiyi_fx.instrument(model, configuration(model))
    optimizer = torch.optim.AdamW(watched.parameters(), 1e-3)
    for step in range(steps):
        loss = loss_of(watched(x), y)
        loss.backward()
        watched.monitor.log("loss", loss.detach())
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    return len(watched.monitor.records.series())


def _train_long(steps: int) -> Monitor:
    """The monitor of a thin MLP that was trained so many steps with several losses."""
    torch.manual_seed(0)
    model, (x, y) = CASES["mlp"].build(), CASES["mlp"].batch()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(steps):
        loss = loss_of(watched(x), y)
        loss.backward()
        for i in range(LOSSES):
            watched.monitor.log(f"loss/{i}", loss.item() * (i + 1) + 0.01 * torch.randn(()).item())
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    return watched.monitor


if __name__ == "__main__":
    main()
