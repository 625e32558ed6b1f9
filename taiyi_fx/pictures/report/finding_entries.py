"""Findings on a page: as JSON, and the marks that they leave on series."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from taiyi_fx.findings import Evidence, Finding, Watched
from taiyi_fx.findings.judged import JUDGED
from taiyi_fx.findings.told import find_beside
from taiyi_fx.outline.of_evidence import with_outline
from taiyi_fx.pictures.report.gathered import Gathered, Group
from taiyi_fx.pictures.report.readout import About
from taiyi_fx.pictures.report.recorded import is_recorded
from taiyi_fx.quantities.health import may_be_undefined
from taiyi_fx.records.json_number import json_number
from taiyi_fx.runs.reasons import reasons

MOST_CONSEQUENCES = 100
"""The most consequences of a finding that a page lists; it counts all."""

_STATES = {"alert": "alert", "warning": "warn", "note": "ok"}
_GRAVITY = ("ok", "warn", "alert")


def findings_in(gathered: Gathered, about: About) -> list[Finding]:
    """The findings that the run itself has: in all numbers that were gathered, and those told."""
    curves: dict[int, Watched] = {}
    for group in gathered.groups:
        if group.name.mode == "train" and not is_recorded(group.name.quantity):
            curves.update(_watched(group, gathered))
    watched = [curves[i] for i in gathered.series if i in curves]
    known = Evidence.of(watched, reasons(about.missing, watched))
    return find_beside(about.told, with_outline(known, about.outline))


def _watched(group: Group, gathered: Gathered) -> Iterator[tuple[int, Watched]]:
    """The series of a group by their ids."""
    order = [*group.series]
    numbers = group.numbers(order)
    ends = np.searchsorted(numbers.row, np.arange(len(order) + 1))
    for row, i in enumerate(order):
        described = gathered.series[i]
        own = slice(ends[row], ends[row + 1])
        facts = (described.direction, described.health, described.unit)
        name = described.name[:2]
        yield i, Watched.made(name, facts, numbers.step[own], numbers.value[own])


def finding_entry(found: Finding) -> dict[str, Any]:
    """A finding for the header, with the first of its consequences, and the number of all."""
    entry = {f.name: getattr(found, f.name) for f in fields(found)}
    rest = [finding_entry(one) for one in found.consequences[:MOST_CONSEQUENCES]]
    more = {"consequences": rest, "follow": len(found.consequences)}
    return {**entry, "value": json_number(found.value), **more}


def flagged(series: Sequence[dict[str, Any]], findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Entries of series, in a state as grave as what was found of them.

    So that what a finding names is nowhere shown as healthy; and of quantities that rules look at,
    what no finding names is nowhere flagged, unless numbers are not finite.
    """
    graver = dict(_states(findings))
    return [_raised(_judged(one, graver), graver) for one in series]


def _states(findings: Sequence[Finding]) -> Iterator[tuple[tuple[str, str], str]]:
    """The state that findings give to a series, the least grave first."""
    every = [one for found in findings for one in (found, *found.consequences)]
    for one in sorted(every, key=lambda one: _GRAVITY.index(_STATES[one.severity])):
        yield (one.module, one.quantity), _STATES[one.severity]


def _judged(one: dict[str, Any], named: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    quantity = one["quantity"].partition(".")[0]
    is_finite = not (one["inf"] or (one["nan"] and not may_be_undefined(one["unit"])))
    is_looked_at = quantity in JUDGED or one["health"] == "share_of_trouble"
    is_judged = one["mode"] == "train" and is_finite and is_looked_at
    is_named = (one["module"], one["quantity"]) in named
    return one if is_named or not is_judged else {**one, "state": "ok"}


def _raised(one: dict[str, Any], graver: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    state = graver.get((one["module"], one["quantity"]), "ok")
    if one["mode"] != "train" or _GRAVITY.index(state) <= _GRAVITY.index(one["state"]):
        return one
    return {**one, "state": state}
