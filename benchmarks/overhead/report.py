"""The tables, in Markdown: a row for each tool, a column for each model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from benchmarks.overhead.models import CASES
from benchmarks.overhead.ratios import milliseconds_cell, ratio_cell, summed
from benchmarks.overhead.tools import PLAIN, TOOLS
from benchmarks.overhead.work import Work

Found = Mapping[str, Any]
"""What one process wrote."""

COMPUTE, WALL = 0, 1

_MEASURED = (
    "Median of the rounds' ratios [quartiles]; of torch.compile's rows to torch.compile. "
    "Torch {torch}, one thread, {device}."
)


def head() -> str:
    """The line above all tables."""
    return _MEASURED.format(torch=torch.__version__, device=_device())


def report(work: Work, times: Mapping[str, Found], facts: Mapping[str, Found]) -> str:
    """The tables of one work; results are by model."""
    parts = [f"## {work.title}"]
    if times:
        parts += _tables_of_time(work, times)
        if any(found["values"] for found in times.values()):
            parts += [_titled(_DIFFERENCE, times, _value)]
        parts += _reasons(times)
    if facts:
        parts.append(_titled(_FACTS, facts, _fact))
    return "\n\n".join(parts)


def _device() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def _tables_of_time(work: Work, times: Mapping[str, Found]) -> Iterator[str]:
    if work.block > 1:
        title = f"CPU time of all threads, {work.block} steps and all that they ask for"
        yield _titled(title, times, _time(COMPUTE, work.block))
        yield _titled("Wall time of the same", times, _time(WALL, work.block))
        return
    yield _titled("CPU time, all steps", times, _time(COMPUTE, 1, work.interval))
    if work.interval > 1:
        yield _titled("CPU time, steps where nothing is due", times, _time(COMPUTE, 1, idle=True))
        yield _titled("CPU time, due steps", times, _time(COMPUTE, 1, idle=False))


Cell = Callable[[Found, str], str]


def _time(clock: int, steps: int, group: int = 1, *, idle: bool | None = None) -> Cell:
    """Cells of a tool's time over its base's, the base being the plain model or the compiled."""

    def chosen(found: Found, tool: str) -> list[float]:
        spent = [pair[clock] for pair in found["spent"][tool]]
        if idle is not None:
            return [x for x, is_due in zip(spent, found["due"], strict=True) if is_due != idle]
        return summed(spent, group)

    def cell(found: Found, tool: str) -> str:
        if tool in found["failed"]:
            return "crashes"
        if tool not in found["spent"]:
            return ""
        ours, base = chosen(found, tool), TOOLS[tool].base
        if tool == PLAIN:
            return milliseconds_cell(ours, group * steps)
        return ratio_cell(ours, chosen(found, base))

    return cell


def _value(found: Found, tool: str) -> str:
    agreement = found["values"].get(tool)
    if agreement is None:
        return ""
    said = f"{agreement['worst']:.0e} of {agreement['compared']}"
    said += f", {agreement['infinite']} infinite" if agreement["infinite"] else ""
    said += f", {agreement['missing']} MISSING" if agreement["missing"] else ""
    wrong = agreement["falsely_infinite"]
    return said + (f", {wrong} FALSELY" if wrong else "")


def _reasons(times: Mapping[str, Found]) -> Iterator[str]:
    """Why tools crash, each in a line."""
    for model, found in times.items():
        for tool, why in found["failed"].items():
            yield f"{tool} crashes on {CASES[model].title}: {why.split('. ')[0]}"


_FACTS = (
    "Held between steps; the peak of memory in a due step; copies to the host; graphs, breaks. Of "
    "torch.compile's rows beside torch.compile, without the model and its batch"
)


_DIFFERENCE = (
    "Largest relative difference from float64, of what the eager model computes: the gradients of "
    "a compiled one are themselves rounded otherwise"
)


def _fact(found: Found, tool: str) -> str:
    facts = found.get(tool)
    if facts is None:
        return ""
    base = found[TOOLS[tool].base]
    if "failed" in facts or "failed" in base:
        return "crashes"
    if tool == PLAIN:
        return f"{_size(facts['held'])}, {_size(facts['peak'])}, {facts['copies']}"
    said = [_size(facts["held"] - base["held"]), _peak(facts["peak"], base["peak"])]
    said += [] if facts["copies"] is None else [str(facts["copies"] - base["copies"])]
    compiled = f"; {facts['graphs']}, {facts['breaks']}" if TOOLS[tool].is_compiled else ""
    return ", ".join(said) + compiled


def _peak(peak: int, base: int) -> str:
    return f"{peak / base:.3f} ({_size(peak - base)} more)"


def _size(n: int) -> str:
    if abs(n) < 2**10:
        return f"{n} B"
    return f"{n / 2**10:.1f} KiB" if abs(n) < 2**20 else f"{n / 2**20:.1f} MiB"


def _titled(title: str, found: Mapping[str, Found], cell: Cell) -> str:
    models = [model for model in CASES if model in found]
    rows = [[tool, *(cell(found[model], tool) for model in models)] for tool in TOOLS]
    lines = [["tool", *(CASES[model].title for model in models)], ["---"] * (len(models) + 1)]
    lines += [row for row in rows if any(row[1:])]
    return "\n".join([f"{title}:", "", *("| " + " | ".join(line) + " |" for line in lines)])
