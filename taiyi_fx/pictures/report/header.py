"""The header of a report: what a page needs before it decodes any numbers."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

import numpy as np

from taiyi_fx.findings.facts.undefined import Counted, are_undefined
from taiyi_fx.outline import Outline
from taiyi_fx.outline.view import opened
from taiyi_fx.pictures.report.downsample import Numbers
from taiyi_fx.pictures.report.finding_entries import (
    Seen,
    changed_entries,
    finding_entry,
    flagged,
)
from taiyi_fx.pictures.report.readout import About, Described
from taiyi_fx.pictures.report.states import state_of
from taiyi_fx.records.json_number import json_number

VERSION = 1
"""The version of the page's data format."""

MOST_EVENTS = 1000


class Graph(NamedTuple):
    """The first view of the graph on a page.

    Attributes:
        outline: The model; None if it is not known.
        is_open: The indices of the items that are open.
        only_probed: True to leave out boxes without quantities and edits.
        direction: The direction of the data flow, as Graphviz names it.
        is_alone: True for a page with nothing but the graph.
    """

    outline: Outline | None
    is_open: Collection[int]
    only_probed: bool = False
    direction: str = "TB"
    is_alone: bool = False


def at_first(outline: Outline | None, entry: Mapping[str, Any]) -> Graph:
    """The first view by default: with what was found, and flagged modules, visible.

    Args:
        outline: The model.
        entry: The run's entry, from `run_entry`.
    """
    if outline is None:
        return Graph(None, ())
    found = [one["module"] for one in entry["findings"] if one["severity"] != "note"]
    first = [event["module"] for event in entry["events"] if event["kind"] == "non_finite"][:1]
    alerts = [one["module"] for one in entry["series"] if one["state"] == "alert"]
    return Graph(outline, opened(outline, urgent=[*filter(None, found), *first, *alerts]))


def header(
    title: str, runs: Sequence[dict[str, Any]], graph: Graph, live: dict[str, Any] | None
) -> dict[str, Any]:
    """The header of a report.

    Args:
        title: The page's title.
        runs: One or two entries from `run_entry`.
        graph: The first view of the first run's graph.
        live: The polling interval of a live page, and the current problem; None for a file.
    """
    return {
        "version": VERSION,
        "title": title,
        "live": live or False,
        "made": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "runs": list(runs),
        "outline": graph.outline.to_json() if graph.outline else None,
        "open": sorted(graph.is_open),
        "only_probed": graph.only_probed,
        "direction": graph.direction,
        "graph_alone": graph.is_alone,
    }


def run_entry(
    name: str,
    about: About,
    series: Sequence[dict[str, Any]],
    chunks: Sequence[dict[str, Any]],
    tensors_left_out: int,
    seen: Seen = Seen(),  # noqa: B008 - it is frozen
) -> dict[str, Any]:
    """A run's part of the header.

    Args:
        name: The run's name.
        about: The run's description.
        series: Entries from `numbers_entries` and `tensors_entry`.
        chunks: The entries of their chunks.
        tensors_left_out: The number of series of tensors that are not shown.
        seen: What its numbers show.
    """
    # If there are too many, harmless ones are left out first.
    ranked = sorted(about.events, key=lambda event: (event.kind == "overflow", event.step))
    events = sorted(ranked[:MOST_EVENTS], key=lambda event: event.step)
    return {
        "name": name,
        "model": about.model,
        "versions": dict(about.versions),
        "sessions": list(about.sessions),
        "epochs": [list(epoch) for epoch in about.epochs],
        "events": [event._asdict() for event in events],
        "left_out": {"tensors": tensors_left_out, "events": len(ranked) - len(events)},
        "findings": [finding_entry(found, seen.telling, about.outline) for found in seen.findings],
        "changed": changed_entries(seen.telling),
        "series": _with_undefined(flagged(series, seen)),
        "chunks": list(chunks),
    }


def _with_undefined(series: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries that say whether their NaN are numbers that nothing defines."""
    counted = [Counted(*(one[name] for name in Counted._fields)) for one in series]
    found = are_undefined(counted)
    return [{**one, "undefined": found} for one, found in zip(series, found, strict=True)]


def numbers_entries(
    described: Sequence[Described], numbers: Numbers, chunk: int
) -> list[dict[str, Any]]:
    """The entries of series of numbers, in the order of their rows.

    Args:
        described: Each row's series.
        numbers: The numbers of all rows.
        chunk: The index of their chunk among the run's chunks.
    """
    ends = np.searchsorted(numbers.row, np.arange(len(described) + 1))
    entries: list[dict[str, Any]] = []
    for row, one in enumerate(described):
        values, steps = (x[ends[row] : ends[row + 1]] for x in (numbers.value, numbers.step))
        state, trend = state_of(values, one.health, one.unit)
        nan, inf = np.isnan(values).sum(), np.isinf(values).sum()
        counts = {
            "first": steps[0],
            "last": steps[-1],
            "nan": nan,
            "inf": inf,
            "numbers": len(steps),
        }
        entries.append(
            {
                **_entry(one, chunk, row),
                **{name: int(value) for name, value in counts.items()},
                "latest": json_number(float(values[-1])),
                "state": state,
                "trend": trend,
            }
        )
    return entries


def tensors_entry(one: Described, steps: Sequence[int], chunk: int) -> dict[str, Any]:
    """The entry of a series of tensors recorded at some steps."""
    none = {"numbers": 0, "latest": None, "state": "ok", "trend": "", "nan": 0, "inf": 0}
    ends = {"first": min(steps), "last": max(steps), "steps": len(steps)}
    return {**_entry(one, chunk, 0), **ends, **none}


def _entry(one: Described, chunk: int, row: int) -> dict[str, Any]:
    direction = "parameters" if one.direction == "parameter" else one.direction
    named = {**one.name._asdict(), "direction": direction}
    named |= {"unit": one.unit, "health": one.health}
    return {**named, "chunk": chunk, "row": row}


def as_json(value: object) -> str:
    """A value as strict JSON in ASCII."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
