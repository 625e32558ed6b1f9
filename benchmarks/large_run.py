"""A run of very many numbers in Parquet: what writing it takes, and what lazy queries of it.

A training's process writes 1,200 numbers a step and a part every 100 steps. Then polars is asked
through `Run.scan`, which reads of the parts what a query needs, and the run's own readers.

    python -m benchmarks.large_run [--numbers 100000000] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from torch import nn

import taiyi_fx
from taiyi_fx.outline import Item, Outline
from taiyi_fx.records.record import Block
from taiyi_fx.writers import Batch, Parquet
from taiyi_fx.writers.run_info import run_info

_SERIES = tuple((f"layers.{i // 4}", f"Quantity{i % 4}") for i in range(1200))
_FLUSH = 100
_KEPT = 1000
"""Steps of random numbers, which come again: made before the clock runs."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--numbers", type=int, default=100_000_000)
    parser.add_argument("--folder", type=Path, help="where to write; by default a temporary one")
    asked = parser.parse_args(argv)
    steps = max(asked.numbers // len(_SERIES), 1)
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        _write(Path(folder), steps)
        _read(Path(folder), steps)


def _write(folder: Path, steps: int) -> None:
    root = nn.Sequential()
    outline = Outline((Item("module", "model"),), ())
    writer = Parquet(folder)
    writer.open(run_info(root, {"": root}, [], 0, 0, lambda: outline))
    values = np.random.default_rng(0).normal(size=(_KEPT, len(_SERIES))).tolist()
    with _timed(f"written, {steps * len(_SERIES):,} numbers"):
        for step in range(steps):
            writer.write(Batch(0, [Block(step, "train", _SERIES, values[step % _KEPT])]))
            if step % _FLUSH == _FLUSH - 1:
                writer.flush()
        writer.close()
    files = list(folder.glob("points-*.parquet"))
    size = sum(file.stat().st_size for file in files)
    print(
        f"{len(files):,} parts, {size / 1e6:,.0f} MB, {size / steps / len(_SERIES):.2f} B a number"
    )


def _read(folder: Path, steps: int) -> None:
    with taiyi_fx.open_run(folder) as run:
        module, quantity = _SERIES[777]
        is_one = (pl.col("module") == module) & (pl.col("quantity") == quantity)
        queries: dict[str, Callable[[], Any]] = {
            "scan: one series": lambda: run.scan().filter(is_one).select("step", "value"),
            "scan: the last 100 steps of all": lambda: run.scan().filter(
                pl.col("step") >= steps - 100
            ),
            "scan: the mean of each quantity": lambda: (
                run.scan().group_by("quantity").agg(pl.col("value").mean())
            ),
            "scan: the largest of each series": lambda: (
                run.scan().group_by("module", "quantity").agg(pl.col("value").max())
            ),
        }
        for name, query in queries.items():
            with _timed(name):
                found = query().collect(engine="streaming")
            print(f"    {len(found):,} rows")
        with _timed("Run.series: one series"):
            assert len(run.series(module, quantity).steps) == steps


@contextmanager
def _timed(what: str) -> Iterator[None]:
    start, of_process = time.perf_counter(), time.process_time()
    yield
    wall, cpu = time.perf_counter() - start, time.process_time() - of_process
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{what}: {wall:.1f} s, {cpu:.1f} s of processors, peak memory {peak:.2f} GB", flush=True)


if __name__ == "__main__":
    main()
