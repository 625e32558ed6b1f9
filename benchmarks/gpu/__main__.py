"""Runs the tests, a process for each model and mode, and writes the table."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import torch

import benchmarks.gpu
from benchmarks.gpu.job import BASE, MODES
from benchmarks.gpu.models import CASES, TINY
from benchmarks.gpu.table import Found, table

Job = tuple[str, str]
"""A model and a mode."""

Process: TypeAlias = "subprocess.Popen[bytes]"

_TESTS = ["-m", "pytest", "tests/cuda", "-m", "cuda", "--confcutdir=tests/cuda", "--durations=5"]
"""Without the plugins that other tests need, so that any environment with pytest will do."""

_BESIDE = ["-p", "no:benchmark", "--numprocesses", str(min(12, os.cpu_count() or 1))]
"""Where there is pytest-xdist: a test has a GPU wait for the host most of the time."""

_ALONE = [(model, "eager") for model in CASES]
_TOGETHER = [(model, mode) for model in CASES for mode in MODES if mode != "eager"]
"""These compile at the same time, on the host's cores, and are then measured in turn."""

_SECONDS = 15.0
"""About how long a model in one mode is measured."""

_ROOM = 75e9
"""Bytes of a device that has room for all that compile; on others one comes after the other."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what the command line says; the exit status is that of the tests."""
    asked = _options(argv)
    if asked.device == "cuda" and not torch.cuda.is_available():
        print(f"No CUDA device is seen by torch {torch.__version__}: nothing was run.")
        return 0
    end = time.monotonic() + 60 * asked.minutes
    status = 0 if asked.only == "benchmark" else _tested(end)
    if asked.only != "tests":
        _benchmark(asked.device, end, asked.to, is_quick=asked.quick)
    return status


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    summary = (benchmarks.gpu.__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=summary)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="tiny models, eager: a look")
    parser.add_argument("--only", choices=["tests", "benchmark"], help="default: both")
    parser.add_argument("--minutes", type=float, default=9.5, help="for all of it; default: 9.5")
    parser.add_argument("--to", type=Path, default=Path("build/gpu.md"), help="build/gpu.md")
    return parser.parse_args(argv)


def _tested(end: float) -> int:
    try:
        words = [*_TESTS, *(_BESIDE if importlib.util.find_spec("xdist") else [])]
        return subprocess.run([sys.executable, *words], timeout=_left(end), check=False).returncode
    except subprocess.TimeoutExpired:
        print("The tests did not end in time.")
        return 1


def _benchmark(device: str, end: float, to: Path, *, is_quick: bool) -> None:
    """Writes the table anew after each group, so that what was measured is kept."""
    groups = [[(model, "eager")] for model in TINY] if is_quick else _groups(device)
    found: dict[Job, Found] = {}
    to.parent.mkdir(parents=True, exist_ok=True)
    text = ""
    for group in groups:
        found.update(found_of(group, device, end))
        text = table(_sorted(found), _machine(device))
        to.write_text(text + "\n", encoding="utf-8")
    print(f"{text}\n\nwritten to {to}")


def _groups(device: str) -> list[list[Job]]:
    has_room = device == "cuda" and torch.cuda.get_device_properties(0).total_memory > _ROOM
    together = [_TOGETHER] if has_room else [[job] for job in _TOGETHER]
    return [*([job] for job in _ALONE), *together]


def found_of(jobs: Sequence[Job], device: str, end: float) -> dict[Job, Found]:
    """What each job found: all get ready at once, then each is measured alone.

    Args:
        jobs: Models and modes.
        device: Where.
        end: When all has to be done, by the monotonic clock.
    """
    print(", ".join(" ".join(job) for job in jobs), file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        files = {job: Path(folder) / f"{i}.json" for i, job in enumerate(jobs)}
        ready = end - 1.4 * _SECONDS * len(jobs)  # a job's blocks, and its first ones
        patience = max(ready - time.monotonic(), 1.0) / 2  # what is begun last has as long again
        running = {job: _start(job, device, file, patience) for job, file in files.items()}
        try:
            _wait_until_ready(running, files, ready)
            return {job: _finished(running[job], files[job], end) for job in jobs}
        finally:
            for process in running.values():
                process.kill()
                process.wait()


def _start(job: Job, device: str, file: Path, patience: float) -> Process:
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.gpu.job", *job, device, str(file)]
    return subprocess.Popen([*words, "--seconds", str(_SECONDS), "--patience", str(patience)])


def _wait_until_ready(
    running: Mapping[Job, Process], files: Mapping[Job, Path], end: float
) -> None:
    """Ends those that are not ready in time."""
    waited_for = set(running)
    while waited_for:
        for job in list(waited_for):
            if _is_ready(files[job]) or running[job].poll() is not None:
                waited_for.remove(job)
            elif time.monotonic() > end:
                running[job].kill()
        time.sleep(0.05)


def _finished(process: Process, file: Path, end: float) -> Found:
    file.with_suffix(".go").touch()
    why = "not reached in time"
    try:
        status = process.wait(_left(end))
    except subprocess.TimeoutExpired:
        process.kill()
    else:
        if not status:
            return json.loads(file.read_text(encoding="utf-8"))
        if _is_ready(file) or status > 0:
            why = f"its process ended with {status}"
    return {"spent": {}, "peaks": {}, "failed": {str(BASE): why}}


def _is_ready(file: Path) -> bool:
    return file.with_suffix(".ready").exists()


def _sorted(found: Mapping[Job, Found]) -> dict[Job, Found]:
    places = {name: i for i, name in enumerate([*CASES, *TINY, *MODES])}
    return dict(sorted(found.items(), key=lambda item: [places[word] for word in item[0]]))


def _left(end: float) -> float:
    return max(end - time.monotonic(), 1.0)


def _machine(device: str) -> str:
    name = torch.cuda.get_device_name() if device == "cuda" else "A CPU, to see that it runs"
    return f"{name}, torch {torch.__version__}."


if __name__ == "__main__":
    sys.exit(main())
