"""One process of the benchmark: one model, one work. Writes what it found as JSON.

It is started by ``benchmarks.overhead``, so that nothing that one model leaves in the process
(compiled code, caches, objects) is there for the next.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import Any

import torch

from benchmarks.overhead.facts import facts_of
from benchmarks.overhead.models import CASES, Case
from benchmarks.overhead.rounds import interleaved
from benchmarks.overhead.tools import available
from benchmarks.overhead.training import Training, started, warm_up
from benchmarks.overhead.values import checked
from benchmarks.overhead.work import WORKS, Work


def times(case: Case, work: Work, tools: list[str], rounds: int) -> dict[str, Any]:
    """What every tool's steps took; whose training fails says so instead."""
    running: dict[str, Training] = {}
    failed, values = {}, {}
    for tool in tools:
        try:
            training = started(case, work, tool)
            warm_up(training, work)
        except RuntimeError as error:  # what autograd raises where hooks meet in-place code
            failed[tool] = str(error).splitlines()[0]
            continue
        if training.watched.values is not None and work.is_compared:
            values[tool] = checked(training, case, work)._asdict()
            training.run(work.interval - 1)  # so that the first round is due again
        running[tool] = training
        print(f"  {tool}", file=sys.stderr, flush=True)
    _align(list(running.values()))
    first = next(iter(running.values())).step
    rounds = -(-rounds // work.interval) * work.interval  # whole turns of the schedule
    due = [work.is_due(first + i) for i in range(rounds)]
    turn = max(1, case.turn // work.block)
    spent = interleaved(running, max(1, rounds // work.block), work.block, turn=turn)
    return {"due": due, "spent": spent, "failed": failed, "values": values}


def _align(trainings: list[Training]) -> None:
    """Brings all trainings to the same step: a tool is due when it says, not when others are."""
    last = max(training.step for training in trainings)
    for training in trainings:
        training.run(last - training.step)


def facts(case: Case, work: Work, tools: list[str]) -> dict[str, Any]:
    """What else is counted of each tool; of those that fail, why."""
    found: dict[str, Any] = {}
    for tool in tools:
        try:
            found[tool] = dataclasses.asdict(facts_of(case, work, tool))
        except RuntimeError as error:
            found[tool] = {"failed": str(error).splitlines()[0]}
    return found


def main() -> None:
    """Does what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["times", "facts"])
    parser.add_argument("model", choices=CASES)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("file")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--tools", nargs="*")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    case, work = CASES[asked.model], WORKS[asked.work]
    tools = available(work, asked.tools)
    if asked.what == "times":
        found = times(case, work, tools, asked.rounds)
    else:
        found = facts(case, work, tools)
    with open(asked.file, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
