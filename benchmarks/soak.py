"""A long training that keeps a run, beside a plain one and a reader: what grows, and what does not.

The thin MLP is trained twice, plain and monitored, a step of each in turn, so that the noise of the
machine falls on both. Another process opens the run every few seconds and reads curves. It ends
with status 1 where something failed that no noise explains: memory beyond what records are said to
take, more files or threads than at first, a record that is missing, a curve with a hole. Linux and
macOS.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import psutil
import torch
from torch import nn

import taiyi_fx
from benchmarks.overhead.models import Batch, loss_of, thin_mlp
from taiyi_fx.writers import Parquet, Store

QUANTITIES = [
    *("InputMean", "InputStd", "InputRMS", "InputSndNorm", "InputAbsMax"),
    *("OutputNorm", "OutputRMS", "OutputAbsMax", "WeightNorm", "WeightGradNorm"),
    *("OutputGradNorm", "OutputGradRMS", "OutputGradAbsMax", "OutputGradSndNorm"),
    *("ParameterRMS", "ParameterGradRMS"),
]
"""Eighteen numbers of each layer, at every step from the first on: in 20,000 steps 7.2 million."""

BYTES = 50
"""The memory of a number in ``monitor.records``, as its documentation says."""

SLACK = 64e6
"""Bytes that memory may grow by beside the records: allocators, SQLite's pages, what waits."""

FILES, THREADS = 2, 1
"""How many more there may be than after the warm-up."""


class Sample(NamedTuple):
    """The training's process at a step."""

    step: int
    memory: int
    records: int
    files: int
    threads: int


@dataclass
class Soak:
    """What was seen of a training.

    Attributes:
        plain: Seconds of the processor in each step of the plain model.
        monitored: The same of the monitored one, with all that it writes.
        waited: Seconds that the latter took by the clock.
        samples: The process, from the end of the warm-up on.
        closing: Seconds that the run's end took.
        size: Bytes of the run's files.
        reads: What the reader saw.
        problems: What is wrong with the run.
    """

    plain: array[float]
    monitored: array[float]
    waited: array[float]
    samples: list[Sample]
    closing: float = 0.0
    size: int = 0
    reads: str = ""
    problems: list[str] | None = None


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--every", type=float, default=3.0, help="seconds between reads")
    parser.add_argument("--parquet", action="store_true", help="keep the run in Parquet")
    asked = parser.parse_args(argv)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        soak = _soak(Path(folder) / "run", asked.steps, asked.every, in_parquet=asked.parquet)
    print("\n".join(_rows(soak)))
    problems = [*growth(soak.samples), *(soak.problems or [])]
    print("\n".join(f"failed: {problem}" for problem in problems) or "nothing failed")
    return 1 if problems else 0


def _soak(folder: Path, steps: int, every: float, *, in_parquet: bool) -> Soak:
    torch.manual_seed(0)
    plain = thin_mlp()
    watched = thin_mlp()
    writer = Parquet(folder) if in_parquet else Store(folder)
    model = taiyi_fx.instrument(watched, {nn.Linear: QUANTITIES}, writers=[writer])
    soak = Soak(array("d"), array("d"), array("d"), [])
    with _reader(folder, every) as reader:
        _train(soak, plain, model, steps)
        shown = {(r.module, r.quantity) for r in model.monitor.records[-10_000:]}
        began = time.perf_counter()
        model.monitor.close()
        soak.closing = time.perf_counter() - began
        soak.samples.append(_sample(steps, model))
        reader.send(None)
        soak.reads, problem = reader.recv()
    soak.size = sum(f.stat().st_size for f in folder.iterdir())
    soak.problems = [*problem, *missing(folder, shown, steps)]
    return soak


def _train(soak: Soak, plain: nn.Module, model: taiyi_fx.InstrumentedModel, steps: int) -> None:
    """Trains both, a step of each in turn."""
    generator = torch.Generator().manual_seed(0)
    batch = torch.randn(64, 32, generator=generator), torch.arange(64) % 32
    of_plain, of_model = (torch.optim.SGD(m.parameters(), lr=1e-4) for m in (plain, model))
    warm, distance = steps // 20, max(1, steps // 40)
    for step in range(steps):
        seconds, _ = _step(plain, of_plain, batch, lambda: None)
        soak.plain.append(seconds)
        seconds, waited = _step(model, of_model, batch, lambda s=step: model.monitor.track(s))
        soak.monitored.append(seconds)
        soak.waited.append(waited)
        if step >= warm and step % distance == 0:
            soak.samples.append(_sample(step, model))


def _step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, track: Callable[[], None]
) -> tuple[float, float]:
    """A step of training; gives its seconds of the processor, and by the clock."""
    # By the clock, others on the machine interrupt a long step more often than a short one.
    start, clock = time.process_time(), time.perf_counter()
    optimizer.zero_grad()
    loss_of(model(batch[0]), batch[1]).backward()
    track()
    optimizer.step()
    return time.process_time() - start, time.perf_counter() - clock


def _sample(step: int, model: taiyi_fx.InstrumentedModel) -> Sample:
    process = psutil.Process()
    with process.oneshot():
        counts = process.num_fds(), process.num_threads()
        return Sample(step, process.memory_info().rss, len(model.monitor.records), *counts)


@contextmanager
def _reader(folder: Path, every: float) -> Iterator[Connection]:
    """Another process that reads the run, until it is sent something; then it tells what it saw."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_read, args=(folder, every, there), daemon=True)
    process.start()
    there.close()
    try:
        yield here
    finally:
        here.close()
        process.join()


def _read(folder: Path, every: float, parent: Connection) -> None:
    taken: list[float] = []
    problems: list[str] = []
    is_last = False
    while not is_last:
        is_last = parent.poll(every)
        start = time.perf_counter()
        try:
            problems += holes(folder)
        except FileNotFoundError:  # it is still being begun
            continue
        except Exception as error:  # noqa: BLE001 - told to the parent
            problems.append(f"reading: {type(error).__name__}: {error}")
        taken.append(time.perf_counter() - start)
    slowest = f", {max(taken):.1f} s at most" if taken else ""
    parent.send((f"{len(taken)} reads of three curves{slowest}", problems[:5]))


def holes(folder: Path) -> list[str]:
    """Curves that are no beginning of all steps."""
    found: list[str] = []
    with taiyi_fx.open_run(folder) as run:
        names = list(run.spans())
        for name in (names[:1], names[len(names) // 2 : len(names) // 2 + 1], names[-1:]):
            for module, quantity, mode in name:
                steps = run.series(module, quantity, mode).steps
                if steps.tolist() != list(range(len(steps))):
                    found.append(f"{quantity} of {module} has a hole after {len(steps)} numbers")
    return found


def missing(folder: Path, series: set[tuple[str, str]], steps: int) -> list[str]:
    """What the closed run lacks of all series at all steps."""
    with taiyi_fx.open_run(folder) as run:
        spans = {(name.module, name.quantity): span for name, span in run.spans().items()}
        wrong = [key for key in series if spans.get(key) != (steps, 0, steps - 1)]
        events = [event.text for event in run.events]
    found = [f"{spans.get(key)} of {key}, not {steps} numbers" for key in wrong[:3]]
    return [*found, *events]


def growth(samples: Sequence[Sample]) -> list[str]:
    """What grew that should not."""
    first = samples[0]
    most = max(sample.records for sample in samples)
    taken = max(sample.memory for sample in samples) - first.memory
    allowed = BYTES * (most - first.records) + SLACK
    found: list[str] = []
    if taken > allowed:
        found.append(f"memory grew by {taken / 1e6:.0f} MB, of {allowed / 1e6:.0f} MB at most")
    full = next((s for s in samples if s.records > 0.95 * most), samples[-1])
    since = samples[-2].memory - full.memory  # the last one has closed the run
    if since > SLACK:
        found.append(f"memory grew by {since / 1e6:.0f} MB with all records in it")
    if (files := max(s.files for s in samples)) > first.files + FILES:
        found.append(f"{files} files are open, {first.files} were at first")
    if (threads := max(s.threads for s in samples)) > first.threads + THREADS:
        found.append(f"{threads} threads run, {first.threads} did at first")
    return found


def _rows(soak: Soak) -> Iterator[str]:
    yield "| step | MB | thousand records | bytes a record | files | threads |"
    yield "| --- | --- | --- | --- | --- | --- |"
    first = soak.samples[0]
    for sample in [*soak.samples[:-1:5], soak.samples[-2], soak.samples[-1]]:
        new = sample.records - first.records
        each = f"{(sample.memory - first.memory) / new:.0f}" if new else "-"
        when = f"{sample.step:,}" if sample is not soak.samples[-1] else "closed"
        cells = [when, f"{sample.memory / 1e6:.0f}", f"{sample.records / 1e3:,.0f}", each]
        yield f"| {' | '.join([*cells, str(sample.files), str(sample.threads)])} |"
    yield ""
    yield "| steps | plain ms | monitored ms | ratio | slowest, by the clock |"
    yield "| --- | --- | --- | --- | --- |"
    steps = len(soak.plain)
    length = max(1, steps // 10)
    for start in (steps // 20, (steps - length) // 2, steps - length):
        plain, monitored = (x[start : start + length] for x in (soak.plain, soak.monitored))
        of_plain, of_monitored = statistics.median(plain), statistics.median(monitored)
        cells = [f"{of_plain * 1e3:.2f}", f"{of_monitored * 1e3:.2f}"]
        cells += [
            f"{of_monitored / of_plain:.2f}",
            f"{max(soak.waited[start : start + length]):.2f} s",
        ]
        yield f"| {start:,} to {start + length - 1:,} | {' | '.join(cells)} |"
    numbers = steps * 18 * 20
    yield ""
    yield f"{numbers:,} numbers, {soak.size / numbers:.1f} bytes each; close: {soak.closing:.1f} s"
    yield f"the reader: {soak.reads}"


if __name__ == "__main__":
    sys.exit(main())
