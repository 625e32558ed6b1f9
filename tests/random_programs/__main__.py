"""Runs many programs and says by which causes some of them fail."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from tests.random_programs.causes import Cause, Causes
from tests.random_programs.run import Difference, Unfit, run
from tests.random_programs.watch import Watch, instrumented, left_alone
from tests.random_programs.write import write


def main() -> int:
    """The command line."""
    options = _options()
    watch = left_alone if options.plain else instrumented
    if options.show is not None:
        return _show(options.show, watch)
    causes, start, ended = Causes(watch), time.monotonic(), "all were run"
    unfit = done = 0
    for seed in range(options.seed, options.seed + options.count):
        if time.monotonic() - start > options.minutes * 60:
            ended = "time was up"
            break
        done += 1
        try:
            program = write(seed)
            difference = run(program, watch)
        except Unfit as error:
            unfit += 1
            print(f"seed {seed} makes no model: {error}", file=sys.stderr)
            continue
        if difference:
            _add(causes, seed, difference, options.quick)
    took = time.monotonic() - start
    failures = sum(len(c.seeds) for c in causes.found)
    print(f"{done} programs in {took:.0f} s ({ended}): {failures} fail by {len(causes.found)} causes, {unfit} make no model")  # fmt: skip
    for cause in causes.sorted():
        print(cause)
    _write(causes.sorted(), options.json, options.cases)
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.random_programs", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="programs to run")
    parser.add_argument("--seed", type=int, default=0, help="the first one's seed")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--json", type=Path, help="write the causes there")
    parser.add_argument("--cases", type=Path, help="write each cause's program into that folder")
    parser.add_argument("--plain", action="store_true", help="watch nothing: all must be the same")
    parser.add_argument("--quick", action="store_true", help="shrink one failure of a kind")
    parser.add_argument("--show", type=int, metavar="SEED", help="shrink and show one program")
    return parser.parse_args()


def _add(causes: Causes, seed: int, difference: Difference, quick: bool) -> None:
    known = next((c for c in causes.found if c.kind == difference.kind), None) if quick else None
    if known:
        known.seeds.append(seed)
    else:
        causes.add(seed, write(seed), difference)


def _show(seed: int, watch: Watch) -> int:
    program = write(seed)
    difference = run(program, watch)
    print(program.text())
    if difference is None:
        print("# the same on both sides")
        return 0
    cause = Causes(watch).add(seed, program, difference)
    print(f"{difference}\n\n# the smallest that fails like it\n\n{cause.program.text()}")
    print(cause.difference)
    return 1


def case_text(cause: Cause) -> str:
    """A cause's program, and what differs, as a file of Python."""
    about = [f"{len(cause.seeds)} programs, as of seed {cause.seeds[0]}", *str(cause.difference).splitlines()]  # fmt: skip
    return "\n".join(f"# {line}" for line in about) + "\n" + cause.program.text()


def _write(causes: list[Cause], file: Path | None, cases: Path | None) -> None:
    if file:
        told = [
            {
                "kind": c.kind,
                "features": c.features,
                "changes": c.changes,
                "seeds": c.seeds,
                "difference": str(c.difference),
                "program": c.program.text(),
            }
            for c in causes
        ]
        file.write_text(json.dumps(told, indent=1))
    if cases:
        cases.mkdir(parents=True, exist_ok=True)
        for number, cause in enumerate(causes):
            (cases / f"{number:03}_{len(cause.seeds)}.py").write_text(case_text(cause))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads of programs that never end are not waited for
