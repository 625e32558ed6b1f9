"""The one table, in Markdown: a row for each model and mode, a column for each tool and work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.gpu.job import BASE, BLOCK, EACH, NOISE, PRESET, TENTH, Row
from benchmarks.gpu.models import CASES, TINY
from benchmarks.overhead.ratios import milliseconds_cell, ratio_cell

Found = Mapping[str, Any]
"""What one process wrote; nothing where it did not end in time."""

_HEAD = [
    *("model", "mode", "plain", "plain again", "`instrument(model)`"),
    *("taiyi_fx, each step", "hooks by hand, each step"),
    *("taiyi_fx, every 10", "hooks by hand, every 10"),
    *("peak of memory, taiyi_fx", "peak of memory, hooks by hand"),
]

_TURN = 100
"""Steps of a turn of a preset's schedule, later on."""

_SAID = (
    "What `instrument(model)` reads without a configuration, later on, at one of 100 steps (here "
    f"at one of {BLOCK}, and what that takes divided by {_TURN // BLOCK}); and "
    "four norms (input, output gradient, weight, its gradient) of every linear, convolution and "
    "BatchNorm layer, as a share of the plain training step in the same mode: the median over "
    f"blocks of {BLOCK} steps, all tools in turn [quartiles]. Under bfloat16 autocast, the device "
    "waited for between blocks alone. The peak of memory is of a due step, over what was "
    "allocated before it, as a share of plain's."
)


def table(found: Mapping[tuple[str, str], Found], machine: str) -> str:
    """The text and the table; what failed is told below it. Results are by model and mode."""
    rows = [_HEAD, ["---"] * len(_HEAD)]
    rows += [[_title(model), mode, *_cells(of_one)] for (model, mode), of_one in found.items()]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    parts = [f"{_SAID} {machine}", "\n".join(lines)]
    reasons = list(_reasons(found))
    return "\n\n".join([*parts, "\n".join(reasons)] if reasons else parts)


def _title(model: str) -> str:
    return {**CASES, **TINY}[model].title


def _cells(found: Found) -> list[str]:
    noise, *others = [_time(found, row) for row in (NOISE, *EACH, *TENTH)]
    times = [_time(found, BASE), noise, _time(found, PRESET, share=BLOCK / _TURN), *others]
    return [*times, *(_peak(found, row) for row in EACH)]


def _time(found: Found, row: Row, share: float = 1.0) -> str:
    """A cell; of what a tool takes beside the plain model that share is told."""
    blocks, base = (found["spent"].get(str(which)) for which in (row, BASE))
    if str(row) in found["failed"]:
        return "failed"
    if blocks is None or base is None:
        return ""
    if row == BASE:
        return milliseconds_cell(blocks, BLOCK)
    return ratio_cell([b + share * (a - b) for a, b in zip(blocks, base, strict=True)], base)


def _peak(found: Found, row: Row) -> str:
    ours, base = (found["peaks"].get(str(which)) for which in (row, BASE))
    return f"{ours / base:.3f}" if ours is not None and base else ""


def _reasons(found: Mapping[tuple[str, str], Found]) -> Iterator[str]:
    for (model, mode), of_one in found.items():
        for row, why in of_one["failed"].items():
            yield f"- {_title(model)}, {mode}: {row}: {why}"
        if of_one.get("retries"):
            yield f"- {_title(model)}, {mode}: memory was short {of_one['retries']} times"
