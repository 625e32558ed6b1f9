"""Runs the tests, a process for each model and mode, and writes the table."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

import benchmarks.gpu
from benchmarks.gpu.job import BASE, MODES
from benchmarks.gpu.models import CASES, TINY
from benchmarks.gpu.table import Found, table

_TESTS = ["-m", "pytest", "tests/cuda", "-m", "cuda", "--confcutdir=tests/cuda", "--durations=5"]
"""Without the plugins that other tests need, so that any environment with pytest will do."""

_ORDER = (
    *((model, "eager") for model in CASES),
    *((model, mode) for model in ("gpt12", "resnet50") for mode in ("compiled", "reduce-overhead")),
    *(("gpt24", mode) for mode in ("compiled", "reduce-overhead")),
)
"""What takes the compiler longest comes last: it may not be reached in time."""


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
        return subprocess.run([sys.executable, *_TESTS], timeout=_left(end), check=False).returncode
    except subprocess.TimeoutExpired:
        print("The tests did not end in time.")
        return 1


def _benchmark(device: str, end: float, to: Path, *, is_quick: bool) -> None:
    """Writes the table anew after each process, so that what was measured is kept."""
    jobs = [(model, "eager") for model in TINY] if is_quick else list(_ORDER)
    found: dict[tuple[str, str], Found] = {}
    to.parent.mkdir(parents=True, exist_ok=True)
    text = ""
    for model, mode in jobs:
        found[model, mode] = _found(model, mode, device, end)
        text = table(_sorted(found), _machine(device))
        to.write_text(text + "\n", encoding="utf-8")
    print(f"{text}\n\nwritten to {to}")


def _found(model: str, mode: str, device: str, end: float) -> Found:
    print(f"{model}, {mode}", file=sys.stderr, flush=True)
    left = _left(end)
    limits = ["--seconds", "15", "--patience", str(left / 3)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        words = [sys.executable, "-W", "ignore", "-m", "benchmarks.gpu.job", model, mode, device]
        why = "not reached in time"
        try:
            subprocess.run([*words, str(file), *limits], timeout=left, check=True)
        except subprocess.TimeoutExpired:
            pass
        except subprocess.CalledProcessError as error:
            why = f"its process ended with {error.returncode}"
        else:
            return json.loads(file.read_text(encoding="utf-8"))
    return {"spent": {}, "peaks": {}, "failed": {str(BASE): why}}


def _sorted(found: dict[tuple[str, str], Found]) -> dict[tuple[str, str], Found]:
    places = {name: i for i, name in enumerate([*CASES, *TINY, *MODES])}
    return dict(sorted(found.items(), key=lambda item: [places[word] for word in item[0]]))


def _left(end: float) -> float:
    return max(end - time.monotonic(), 1.0)


def _machine(device: str) -> str:
    name = torch.cuda.get_device_name() if device == "cuda" else "A CPU, to see that it runs"
    return f"{name}, torch {torch.__version__}."


if __name__ == "__main__":
    sys.exit(main())
