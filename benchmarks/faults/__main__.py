"""Trains, asks for findings, and prints who was named."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from pathlib import Path

import torch

import benchmarks.faults
from benchmarks.faults import (
    healthy,
    healthy_kinds,
    healthy_more,
    healthy_twins,
    kept_away,
    opened,
    planted,
    reported,
    sound,
    twinned,
)
from benchmarks.faults.early import early_alarms
from benchmarks.faults.fault import FAULTS, HEALTHY, Fault, Healthy
from benchmarks.faults.score import score, shares, table
from benchmarks.faults.sound.training import SOUND, Sound, looks
from benchmarks.faults.visible import gap, line
from taiyi_fx import Monitor

PARTS = ("tuning", "held_out", "healthy", "sound", "all")

__all__ = [
    "healthy",
    "healthy_kinds",
    "healthy_more",
    "healthy_twins",
    "kept_away",
    "main",
    "opened",
    "planted",
    "reported",
    "sound",
    "twinned",
]

Case = Fault | Healthy | Sound


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what the command line says.

    Returns:
        The exit status: 2 where the monitor has no findings, 1 where a fault cannot be seen, or an
        early look at a healthy training accuses it.
    """
    asked = _options(argv)
    torch.set_num_threads(1)
    sound.read_all()
    cases = [_seeded(case, asked.seed) for case in _chosen(asked.part, asked.only)]
    if asked.notes:
        return _tell_all([case for case in cases if isinstance(case, Sound)])
    if asked.verify:
        return _verify([case for case in cases if isinstance(case, Fault)])
    if asked.early:
        return _look_early([c for c in cases if isinstance(c, Healthy)], is_preset=asked.preset)
    if not hasattr(Monitor, "findings"):
        print("monitor.findings is not there: nothing can be scored.")
        return 2
    begin, outcomes = time.monotonic(), []
    for case in cases:
        print(case.label, file=sys.stderr, flush=True)
        outcomes.append(score(case, is_preset=asked.preset, kept=asked.kept))
    print(f"{table(outcomes)}\n\n{shares(outcomes)}")
    print(f"{len(cases)} trainings in {time.monotonic() - begin:.0f} s")
    if asked.json:
        text = json.dumps([asdict(outcome) for outcome in outcomes], indent=1)
        asked.json.write_text(text + "\n", encoding="utf-8")
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    summary = (benchmarks.faults.__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=summary)
    parser.add_argument("--part", choices=PARTS, default="tuning", help="default: tuning")
    parser.add_argument("--only", help="a name, a name/task, or a pattern of these")
    parser.add_argument("--preset", action="store_true", help="watch by the preset that fits")
    parser.add_argument("--json", type=Path, help="a file for all outcomes")
    parser.add_argument(
        "--kept",
        type=Path,
        help="a folder of evidence: training is left out where there is some, else added to it",
    )
    parser.add_argument("--verify", action="store_true", help="check that the faults show")
    parser.add_argument("--seed", type=int, default=1, help="of sound trainings")
    parser.add_argument(
        "--notes", action="store_true", help="tell all findings of each look at sound trainings"
    )
    parser.add_argument(
        "--early", action="store_true", help="look at the first steps of healthy trainings alone"
    )
    return parser.parse_args(argv)


def _chosen(part: str, only: str | None) -> list[Case]:
    known: list[Case] = [*FAULTS, *HEALTHY, *SOUND]
    cases = [case for case in known if part in ("all", case.part)]
    if only is None:
        return cases
    return [c for c in cases if c.name == only or fnmatchcase(c.label, only)]


def _seeded(case: Case, seed: int) -> Case:
    return replace(case, seed=seed) if isinstance(case, Sound) else case


def _tell_all(cases: Sequence[Sound]) -> int:
    for case in cases:
        begin = time.monotonic()
        for look in looks(case):
            for found in look.findings:
                print(f"{case.label} after {look.steps} steps: {found}", flush=True)
        print(f"{case.label} {time.monotonic() - begin:.1f} s", flush=True)
    return 0


def _look_early(cases: Sequence[Healthy], *, is_preset: bool) -> int:
    accused = 0
    for case in cases:
        alarms = early_alarms(case, is_preset=is_preset)
        accused += bool(alarms)
        for count, found in alarms:
            print(f"{case.label} after {count} steps: {found}", flush=True)
    print(f"{accused} of {len(cases)} healthy trainings are accused in their first steps")
    return int(accused > 0)


def _verify(faults: Sequence[Fault]) -> int:
    hidden = 0
    for fault in faults:
        found = gap(fault)
        hidden += not found.is_visible
        print(line(fault, found), flush=True)
    print(f"{len(faults) - hidden} of {len(faults)} faults show")
    return int(hidden > 0)


if __name__ == "__main__":
    sys.exit(main())
