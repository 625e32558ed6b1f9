"""Instruments models of whole libraries and compares them with the plain ones, bit for bit.

Every module without parts is probed at its input, its output and its output's gradient. Each
model goes through two training steps and an evaluation, plain and instrumented; outputs,
gradients, parameters and buffers have to be the same bits, every call of a probed module has to
be recorded with the value that a hook reads. The time of `instrument` is told beside what it may
be: three forwards and a second.

With ``--compile`` models are compiled as one graph instead, plain and instrumented; where the plain
model compiles, the instrumented one has to, and to record what it records in eager code, or to say
why not.

The family ``libraries`` holds models of a hundred packages; those that are not installed are said
to be skipped, and ``make zoo-libraries`` installs and runs them.

Run it from the root of the repository, in an environment with the models' libraries (``make zoo``
makes one):

    python -m benchmarks.zoo [--short] [--compile] [--family FAMILY] [--only PATTERN] \
        [--device DEVICE] [--part PART] [--json FILE]
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import gc
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence

import torch

from benchmarks.zoo_calls import QUANTITIES
from benchmarks.zoo_check import Result, check_case
from benchmarks.zoo_compile import Compiled, check_compiled
from benchmarks.zoo_models.case import Case

FAMILIES = {
    "transformers": "benchmarks.zoo_models.transformers_models",
    "torchvision": "benchmarks.zoo_models.torchvision_models",
    "timm": "benchmarks.zoo_models.timm_models",
    "libraries": "benchmarks.zoo_models.libraries",
    "hard": "tests.hard_models",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the zoo; 1 if a model falls short."""
    options = _options(argv)
    torch.set_num_threads(1)
    if options.device != "cpu":
        _make_repeatable()
    if options.compile:
        return _compile(options)
    results: dict[str, list[Result]] = {}
    for family in options.family or FAMILIES:
        for case in _cases(family, options):
            started = time.perf_counter()
            result = check_case(case)
            gc.collect()
            results.setdefault(family, []).append(result)
            print(_line(result, time.perf_counter() - started), flush=True)
    print(_report(results))
    if options.json:
        rows = [dataclasses.asdict(r) for family in results.values() for r in family]
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return int(any(r.falls_short for family in results.values() for r in family))


def _compile(options: argparse.Namespace) -> int:
    rows, falls_short = [], False
    for family in options.family or FAMILIES:
        results = []
        for case in _cases(family, options):
            results.append(check_compiled(case))
            gc.collect()
            print(_compiled_line(results[-1]), flush=True)
        judged = [r for r in results if not r.excluded]
        falls_short = falls_short or any(r.problems for r in judged)
        rows.append(_compiled_row(family, results, judged))
    print(_table(_COMPILED_HEAD, rows))
    return int(falls_short)


def _compiled_line(result: Compiled) -> str:
    said = "; ".join(result.problems) or f"{result.same}/{result.values} values"
    said += f", {result.told} told to be missing" if result.told else ""
    said = f"excluded: {result.excluded}" if result.excluded else said
    seconds = f"{result.plain_seconds:5.1f} {result.seconds:5.1f} s"
    return f"{result.name:<60} {seconds}  {'FAILS: ' if result.problems else ''}{said}"


_COMPILED_HEAD = (
    "compiled",
    "models",
    "plain compiles",
    "instrumented too",
    "values",
    "told",
    "seconds",
)


def _compiled_row(
    family: str, results: Sequence[Compiled], judged: Sequence[Compiled]
) -> tuple[str, ...]:
    return (
        family,
        str(len(results)),
        str(len(judged)),
        str(sum(not r.problems for r in judged)),
        f"{sum(r.same for r in judged)}/{sum(r.values for r in judged)}",
        str(sum(r.told for r in judged)),
        f"{sum(r.plain_seconds for r in judged):.0f} {sum(r.seconds for r in judged):.0f}",
    )


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", action="append", choices=FAMILIES, help="one or more of these")
    parser.add_argument(
        "--only", metavar="PATTERN", default="*", help="names that fit, as in *net*"
    )
    parser.add_argument("--short", action="store_true", help="a few small models of each family")
    parser.add_argument("--compile", action="store_true", help="compile each as one graph")
    parser.add_argument("--device", default="cpu", help="where the models are, such as cuda")
    parser.add_argument(
        "--part", metavar="I/N", type=_part, default=(0, 1), help="each N-th model from the I-th on"
    )
    parser.add_argument("--json", metavar="FILE", help="where to write all results")
    return parser.parse_args(argv)


def _part(text: str) -> tuple[int, int]:
    part, parts = map(int, text.split("/"))
    return part - 1, parts


def _make_repeatable() -> None:
    """Takes the operations of a device that bring the same bits each time, where it has them."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)


def _cases(family: str, options: argparse.Namespace) -> Iterator[Case]:
    try:
        module = importlib.import_module(FAMILIES[family])
        cases = module.cases()
    except ModuleNotFoundError as error:
        print(f"{family}: skipped, {error}")
        return
    short = getattr(module, "SHORT", None) if options.short else None
    part, parts = options.part
    for case in cases[part::parts]:
        if fnmatch.fnmatchcase(case.name, options.only) and (short is None or case.name in short):
            yield case if options.device == "cpu" else case.on(options.device)


def _line(result: Result, seconds: float) -> str:
    if result.excluded:
        said = f"excluded: {result.excluded}"
    elif result.error:
        said = f"FAILS: {result.error}"
    else:
        equal = "bit-equal" if result.is_equal else "NOT EQUAL"
        kind = "one graph" if result.is_graph else f"{len(result.python)} in Python"
        said = f"{equal}, {_calls([result])}, {result.instrument_seconds:.2f} s, {kind}"
        said += ", FALLS SHORT" if result.falls_short else ""
    return f"{result.name:<60} {seconds:5.1f} s  {said}"


def _calls(results: Sequence[Result]) -> str:
    return " ".join(
        f"{sum(r.observed.get(q, 0) for r in results)}/{sum(r.made.get(q, 0) for r in results)}"
        for q in QUANTITIES
    )


_HEAD = (
    "family",
    "models",
    "bit-equal",
    "calls seen (input output gradient)",
    "failed",
    "instrument s (median max)",
    "of limit",
    "one graph",
)


def _report(results: dict[str, list[Result]]) -> str:
    rows = [_row(family, found) for family, found in results.items()]
    everything = [r for found in results.values() for r in found]
    if len(rows) > 1:
        rows.append(_row("all", everything))
    return "\n".join([_table(_HEAD, rows), "", *_remarks(everything)])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    table = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in (head, *rows)
    ]
    return "\n".join(["", *table])


def _row(family: str, results: list[Result]) -> tuple[str, ...]:
    judged = [r for r in results if not r.excluded]
    if not judged:
        return family, "0", *[""] * (len(_HEAD) - 2)
    seconds = [r.instrument_seconds for r in judged]
    return (
        family,
        str(len(judged)),
        str(sum(r.is_equal for r in judged)),
        _calls(judged),
        str(sum(bool(r.error) for r in judged)),
        f"{statistics.median(seconds):.2f} {max(seconds):.2f}",
        f"{max(r.instrument_seconds / r.limit for r in judged):.0%}",
        str(sum(r.is_graph for r in judged)),
    )


def _remarks(results: list[Result]) -> Iterator[str]:
    for result in results:
        said = [result.error, *result.problems] if result.falls_short else []
        said += [f"excluded: {result.excluded}"] if result.excluded else []
        said += [f"note: {note}" for note in result.notes]
        if any(said):
            yield result.name
            yield from (f"  - {text}" for text in said if text)


if __name__ == "__main__":
    sys.exit(main())
