"""Forks runs that train until they are killed: one for each folder that is named on stdin.

A run tells in ``told`` inside of its folder what it tracked and what was flushed.
"""

import os
import sys
from pathlib import Path

import torch
from torch import nn

from taiyi_fx import instrument, open_run
from taiyi_fx.writers import Store, writer_group


class Telling(Store):
    """Tells of each step before it is written, and once it is durable."""

    def __init__(self, folder, told):
        super().__init__(folder)
        self._told = told
        self._last = -1

    def write(self, batch):
        for record in batch:
            self._last = max(self._last, record.step)
        os.write(self._told, b"tracked %d\n" % self._last)
        super().write(batch)

    def flush(self):
        super().flush()
        os.write(self._told, b"flushed %d\n" % self._last)


def train(folder):
    told = os.open(Path(folder) / "told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    writer_group.FLUSH_SECONDS = 0.02
    start = 0
    if (Path(folder) / "run.sqlite").exists():
        try:
            with open_run(folder) as run:
                start = max(run.to_numpy()["step"].tolist(), default=-1) + 1
        except ValueError:  # killed before it began
            pass
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    model = instrument(
        model,
        {nn.Linear: ["InputMean", "WeightNorm", "OutputGradSndNorm"]},
        start_step=start,
        writers=[Telling(folder, told)],
    )
    step = start
    while True:
        model(torch.randn(3, 4)).sum().backward()
        model.monitor.track(step)
        step += 1


def main():
    torch.set_num_threads(1)
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            train(line.rstrip("\n"))
        print(child, flush=True)
        os.waitpid(child, 0)
        print("dead", flush=True)


if __name__ == "__main__":
    main()
