"""One process of the benchmark: one model in one mode, by all tools. Writes JSON.

Each tool takes a block of twenty steps in each round, in an order that changes, and waits for the
device before and after it alone: within a block the host runs ahead, as in training. So what a tool
waits for itself costs what it costs there. A block's time is divided by plain's of the same round.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.models import CASES, TINY
from benchmarks.overhead.memory import peak_of
from benchmarks.overhead.models import Case
from benchmarks.overhead.rounds import interleaved
from benchmarks.overhead.tools import PLAIN, TOOLS, Watched
from benchmarks.overhead.training import Training
from benchmarks.overhead.work import WORKS

BLOCK = 20
"""Steps: two turns of every tenth step."""


@dataclass(frozen=True)
class Row:
    """What is measured: a tool at a work."""

    tool: str
    work: str

    def __str__(self) -> str:
        """The key of its figures."""
        return f"{self.tool}, {self.work}"


BASE = Row(PLAIN, "q1")
EACH = (Row("taiyi_fx", "q1"), Row("hooks by hand", "q1"))
TENTH = (Row("taiyi_fx", "q2"), Row("hooks by hand", "q2"))
PRESET = Row("taiyi_fx", "preset-often")
"""One due step in a block; later on there is one in five of them."""
NOISE = Row("plain again", "q1")


@dataclass(frozen=True)
class Mode:
    """How the model runs.

    Attributes:
        rows: What is measured; each kind of due step is compiled anew, which takes time.
        options: Of `torch.compile`; none without it.
    """

    rows: tuple[Row, ...]
    options: Mapping[str, str] | None = None

    @property
    def has_peaks(self) -> bool:
        """Whether the allocator sees a step: a CUDA graph's memory was taken once, when made."""
        return "mode" not in (self.options or {})


MODES = {
    "eager": Mode((BASE, NOISE, PRESET, *EACH, *TENTH)),
    "compiled": Mode((BASE, *EACH), {}),
    "reduce-overhead": Mode((BASE, *EACH), {"mode": "reduce-overhead"}),
}


def measured(
    case: Case,
    mode: Mode,
    device: str,
    *,
    seconds: float,
    patience: float = math.inf,
    turn: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """What the blocks took and what a due step allocated; of tools that fail, why.

    Args:
        case: What is trained.
        mode: How it runs.
        device: Where.
        seconds: About how long the blocks may take, all together.
        patience: The seconds after which no other tool is begun, as its compilation may be long.
        turn: Called when all is compiled: returns when the device is this process's alone.
    """
    began = time.perf_counter()
    running: dict[str, Training] = {}
    peaks: dict[str, int] = {}
    failed: dict[str, str] = {}
    for row in mode.rows:
        if time.perf_counter() - began > patience:
            failed[str(row)] = "not reached in time"
            continue
        try:
            training = started(case, mode, row, device)
            training.run(BLOCK)  # the next step is due
            if mode.has_peaks:
                peaks[str(row)] = _peak(training)
            else:
                training.run_step()
            training.run(BLOCK - 1)
            running[str(row)] = training
        except Exception as error:  # noqa: BLE001 - a tool that fails is told in the table
            failed[str(row)] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    turn()
    longest = max(map(_seconds, running.values()), default=1.0)
    rounds = int(seconds / (longest * max(1, len(running))))
    spent = interleaved(running, min(max(rounds, 3), case.rounds), BLOCK)
    walls = {row: [of_block.wall for of_block in blocks] for row, blocks in spent.items()}
    return {"spent": walls, "peaks": peaks, "failed": failed, "retries": _retries(device)}


def _retries(device: str) -> int:
    """How often the allocator had to give memory back first, for which a step waits."""
    return torch.cuda.memory_stats()["num_alloc_retries"] if device == "cuda" else 0


def started(case: Case, mode: Mode, row: Row, device: str) -> Training:
    """The model as every tool gets it, watched by one and then compiled, if the mode says so."""
    torch.manual_seed(0)
    with torch.device(device):
        model, (x, classes) = case.build(), case.batch()
    work = WORKS[row.work]
    watched = TOOLS[row.tool].watch(model, work)
    training = Training(_compiled(watched, mode), (x, classes), autocast=torch.bfloat16)
    training.step = work.first_step
    return training


def _compiled(watched: Watched, mode: Mode) -> Watched:
    if mode.options is None:
        return watched
    return replace(watched, model=torch.compile(watched.model, **mode.options))


def _peak(training: Training) -> int:
    training.clear_gradients()
    return peak_of(training.run_step, training.batch[0].device)


def _seconds(training: Training) -> float:
    began = time.perf_counter()
    training.run(BLOCK)
    return time.perf_counter() - began


def wait_for_turn(file: Path) -> None:
    """Says by a file that this process is ready, and waits for the one that says that it may go."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()  # others are getting ready
    file.with_suffix(".ready").touch()
    while not file.with_suffix(".go").exists():
        time.sleep(0.05)


def main() -> None:
    """Does what the command line says."""
    # All tools' models are there at once: without it their memory falls into pieces.
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=[*CASES, *TINY])
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("device")
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--patience", type=float, required=True)
    asked = parser.parse_args()
    case = {**CASES, **TINY}[asked.model]
    found = measured(
        case,
        MODES[asked.mode],
        asked.device,
        seconds=asked.seconds,
        patience=asked.patience,
        turn=lambda: wait_for_turn(asked.file),
    )
    asked.file.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
