"""Starts a process for each model and work, and prints the tables of each work."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import benchmarks.overhead
from benchmarks.overhead import with_monitorch
from benchmarks.overhead.models import CASES
from benchmarks.overhead.report import head, report
from benchmarks.overhead.tools import TOOLS
from benchmarks.overhead.work import WORKS

_QUICK = 10
"""One full turn of the schedule."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    asked = _options(argv)
    if not with_monitorch.is_installed():
        print("monitorch is left out: it is not installed (pip install 'taiyi-fx[bench]')")
    print(head())
    for work in asked.work:
        times: dict[str, Any] = {}
        facts: dict[str, Any] = {}
        for model in asked.model:
            rounds = str(asked.rounds or (_QUICK if asked.quick else CASES[model].rounds))
            if "times" in asked.only:
                times[model] = _found("times", model, work, rounds, asked.tools)
            if "facts" in asked.only:
                facts[model] = _found("facts", model, work, rounds, asked.tools)
        print("", report(WORKS[work], times, facts), sep="\n", flush=True)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    summary = (benchmarks.overhead.__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=summary)
    every = {"action": "extend", "nargs": "+"}
    parser.add_argument("--model", choices=CASES, help="default: all", **every)
    parser.add_argument("--work", choices=WORKS, help="default: all", **every)
    parser.add_argument(
        "--tools", "--columns", choices=TOOLS, help="default: all that are there", **every
    )
    parser.add_argument("--only", choices=["times", "facts"], help="default: both", **every)
    parser.add_argument("--rounds", type=int, help="steps of each tool that are measured")
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK} rounds: a look, no figures")
    asked = parser.parse_args(argv)
    asked.model, asked.work = asked.model or list(CASES), asked.work or list(WORKS)
    asked.only = asked.only or ["times", "facts"]
    return asked


def _found(what: str, model: str, work: str, rounds: str, tools: list[str] | None) -> Any:
    print(f"{what}: {model}, {work}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        words = [sys.executable, "-W", "ignore", "-m", "benchmarks.overhead.worker"]
        words += [what, model, work, str(file), "--rounds", rounds]
        words += ["--tools", *tools] if tools else []
        subprocess.run(words, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        return json.loads(file.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
