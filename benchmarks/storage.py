"""What it costs to store a run, and to read it: a step of 1,200 numbers, and 12 million of them.

The writers are given the same numbers, turn by turn in one process, so that their ratios hold where
the times don't. A flush comes every 100 steps, about what five seconds of training are.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

import taiyi_fx
from taiyi_fx.outline import Item, Outline
from taiyi_fx.records.record import Block
from taiyi_fx.writers import Batch, Parquet, Store, Writer
from taiyi_fx.writers.run_info import run_info

_SERIES = tuple((f"layers.{i // 4}", f"Quantity{i % 4}") for i in range(1200))
_FLUSH = 100


@dataclass
class Tool:
    """Something that stores numbers, and the seconds that each of its steps took."""

    name: str
    write: Callable[[int, list[float]], None]
    flush: Callable[[], None]
    close: Callable[[], None]
    folder: Path
    seconds: list[float] = field(default_factory=list)

    def step(self, step: int, values: list[float]) -> None:
        """Stores a step, and measures."""
        start = time.perf_counter()
        self.write(step, values)
        if step % _FLUSH == _FLUSH - 1:
            self.flush()
        self.seconds.append(time.perf_counter() - start)


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storage", description=__doc__)
    parser.add_argument("--steps", type=int, default=600, help="that each tool stores")
    parser.add_argument("--long", type=int, default=10_000, help="steps of the long run")
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        print(_costs(Path(folder), asked.steps))
    with tempfile.TemporaryDirectory() as folder:
        print(_reading(Path(folder), asked.long))


def _costs(folder: Path, steps: int) -> str:
    tools = [tool for make in _MAKERS for tool in make(folder)]
    values = np.random.default_rng(0).normal(size=(_FLUSH, len(_SERIES))).tolist()
    for step in range(-_FLUSH, steps):  # the first hundred are to get warm
        for tool in tools:
            tool.step(step + _FLUSH, values[step % _FLUSH])
    rows = ["| writer | ms a step | of them in flushes | beside the run store | bytes a number |"]
    rows += ["| --- | --- | --- | --- | --- |"]
    own = sum(tools[0].seconds[_FLUSH:])
    for tool in tools:
        tool.close()
        of_steps = np.array(tool.seconds[_FLUSH:])
        at_flush = of_steps[_FLUSH - 1 :: _FLUSH].sum()
        size = sum(f.stat().st_size for f in tool.folder.rglob("*") if f.is_file())
        cells = [
            f"{1000 * of_steps.mean():.2f}",
            f"{1000 * at_flush / len(of_steps):.2f}",
            f"{of_steps.sum() / own:.1f} x",
            f"{size / (steps + _FLUSH) / len(_SERIES):.1f}",
        ]
        rows.append(f"| {tool.name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _reading(folder: Path, steps: int) -> str:
    (tool,) = _own("run store", Store(folder / "store"), folder / "store")
    values = np.random.default_rng(0).normal(size=(_FLUSH, len(_SERIES))).tolist()
    for step in range(steps):
        tool.step(step, values[step % _FLUSH])
    lines = [f"{steps * len(_SERIES):,} numbers: {np.mean(tool.seconds) * 1000:.2f} ms a step"]
    with _timed(lines, "close, which makes the columns"):
        tool.close()
    size = (folder / "store" / "run.sqlite").stat().st_size
    lines.append(f"{size / 1e6:.0f} MB, {size / steps / len(_SERIES):.1f} bytes a number")
    with _timed(lines, "open_run"):
        run = taiyi_fx.open_run(folder / "store")
    with run:
        for module, quantity in (_SERIES[0], _SERIES[777], _SERIES[-1]):
            with _timed(lines, f"curve of {module} {quantity}"):
                assert len(run.series(module, quantity).steps) == steps
        with _timed(lines, "grid of a quantity, a quarter of all"):
            run.grid("Quantity1")
    return "\n".join(lines)


@contextmanager
def _timed(lines: list[str], what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    lines.append(f"{what}: {time.perf_counter() - start:.3f} s")


def _own(name: str, writer: Writer, folder: Path) -> Iterator[Tool]:
    root = nn.Sequential()
    outline = Outline((Item("module", "model"),), ())
    writer.open(run_info(root, {"": root}, [], 0, 0, lambda: outline))

    def write(step: int, values: list[float]) -> None:
        writer.write(Batch(0, [Block(step, "train", _SERIES, values)]))

    yield Tool(name, write, writer.flush, writer.close, folder)


def _stores(folder: Path) -> Iterator[Tool]:
    yield from _own("run store", Store(folder / "store"), folder / "store")
    if _is_there("pyarrow"):
        yield from _own("Parquet", Parquet(folder / "parquet"), folder / "parquet")


def _tensorboard(folder: Path) -> Iterator[Tool]:
    if not _is_there("tensorboard"):
        return
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(folder / "tensorboard")
    names = [f"{module}/{quantity}" for module, quantity in _SERIES]

    def write(step: int, values: list[float]) -> None:
        for name, value in zip(names, values, strict=True):
            writer.add_scalar(name, value, step)

    yield Tool("TensorBoard, add_scalar", write, writer.flush, writer.close, folder / "tensorboard")


def _wandb(folder: Path) -> Iterator[Tool]:
    if not _is_there("wandb"):
        return
    os.environ["WANDB_SILENT"] = "true"
    import wandb

    (folder / "wandb").mkdir()
    run: Any = wandb.init(project="storage", mode="offline", dir=folder / "wandb")
    names = [f"{module}/{quantity}" for module, quantity in _SERIES]

    def write(step: int, values: list[float]) -> None:
        run.log(dict(zip(names, values, strict=True)), step=step)

    yield Tool("W&B offline, log", write, lambda: None, run.finish, folder / "wandb")


def _is_there(package: str) -> bool:
    found = importlib.util.find_spec(package) is not None
    if not found:
        print(f"{package} is left out: it is not installed (pip install 'taiyi-fx[bench]')")
    return found


_MAKERS: tuple[Callable[[Path], Iterator[Tool]], ...] = (_stores, _tensorboard, _wandb)


if __name__ == "__main__":
    main()
