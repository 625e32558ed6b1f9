"""Findings on a page: as JSON, and the marks that they leave on series."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from taiyi_fx.findings import Evidence, Finding, Watched
from taiyi_fx.findings.facts.telling import Telling, changed_most, telling
from taiyi_fx.findings.judged import JUDGED
from taiyi_fx.findings.told import find_beside
from taiyi_fx.outline import Outline
from taiyi_fx.outline.of_evidence import with_outline
from taiyi_fx.pictures.report.evidence import Tellings, evidence_of, is_within, opening_of
from taiyi_fx.pictures.report.finding_boxes import boxes_of
from taiyi_fx.pictures.report.gathered import Gathered, Group
from taiyi_fx.pictures.report.readout import About
from taiyi_fx.pictures.report.recorded import is_recorded
from taiyi_fx.quantities.health import from_stored, may_be_undefined
from taiyi_fx.records.json_number import json_number
from taiyi_fx.records.record import Series
from taiyi_fx.runs.reasons import reasons

MOST_CONSEQUENCES = 100
"""The most consequences of a finding that a page lists; it counts all."""

_MOST_CHANGED = 3
"""The series that are named where nothing was found."""

_STATES = {"alert": "alert", "warning": "warn", "note": "ok"}
_NOTHING = Telling(0, 0)
_GRAVITY = ("ok", "warn", "alert")


class Seen(NamedTuple):
    """The findings of a run, and where else to look.

    Attributes:
        findings: Its findings, most urgent first.
        telling: How much each series of training tells, by its module and quantity.
    """

    findings: Sequence[Finding] = ()
    telling: Tellings = MappingProxyType({})


def seen_in(gathered: Gathered, about: About) -> Seen:
    """The findings that the run itself has, in all numbers that were gathered, and those told."""
    curves: dict[int, Watched] = {}
    for group in gathered.groups:
        if not is_recorded(group.name.quantity):
            curves.update(_watched(group, gathered))
    watched = [curves[i] for i in gathered.series if i in curves]
    trained = [one for one in watched if one.mode == "train"]
    known = Evidence.of(watched, reasons(about.missing, trained))
    findings = find_beside(about.told, with_outline(known, about.outline))
    return Seen(findings, telling(trained))


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
        mode = described.name.mode
        yield i, Watched.made(name, facts, numbers.step[own], numbers.value[own], mode)


def finding_entry(found: Finding, telling: Tellings, outline: Outline | None) -> dict[str, Any]:
    """A finding for the header, with the first of its consequences, and the number of all.

    Beside its fields, it has the quantity that shows it best as ``"evidence"``, that which a page
    opens on as ``"opens"``, and the items of the outline that it names as ``"boxes"``.
    """
    entry = {f.name: getattr(found, f.name) for f in fields(found)}
    rest = [finding_entry(one, telling, outline) for one in found.consequences[:MOST_CONSEQUENCES]]
    shown = {
        "evidence": evidence_of(found, telling),
        "opens": opening_of(found, telling),
        "boxes": boxes_of(found, outline) if outline else [],
    }
    more = {"consequences": rest, "follow": len(found.consequences)}
    return {**entry, "value": json_number(found.value), **shown, **more}


def changed_entries(telling: Tellings) -> list[dict[str, Any]]:
    """The series that changed most, for the header: module, quantity, and from where to where."""
    return [
        {
            "module": module,
            "quantity": quantity,
            "first": telling[module, quantity].first,
            "last": telling[module, quantity].last,
        }
        for module, quantity in changed_most(telling, _MOST_CHANGED)
    ]


def flagged(series: Sequence[dict[str, Any]], seen: Seen) -> list[dict[str, Any]]:
    """Entries of series, in a state as grave as what was found of them; with how much they tell.

    So that what a finding names is nowhere shown as healthy; and of quantities that rules look at,
    what no finding names is nowhere flagged, unless numbers are not finite.
    """
    graver = dict(_states(seen))
    return [_raised(_judged(_scored(one, seen.telling), graver), graver) for one in series]


def _states(seen: Seen) -> Iterator[tuple[Series, str]]:
    """The state that findings give to a series, the least grave first."""
    every = [one for found in seen.findings for one in (found, *found.consequences)]
    for one in sorted(every, key=lambda one: _GRAVITY.index(_STATES[one.severity])):
        state, evidence = _STATES[one.severity], evidence_of(one, seen.telling)
        yield (one.module, one.quantity), state
        if evidence == one.quantity:
            continue
        for module, quantity in seen.telling:
            if quantity == evidence and is_within(module, one.module):
                yield (module, quantity), state


def _scored(one: dict[str, Any], telling: Tellings) -> dict[str, Any]:
    known = telling.get((one["module"], one["quantity"])) if one["mode"] == "train" else None
    return {**one, "score": round((known or _NOTHING).score, 2)}


def _judged(one: dict[str, Any], named: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    quantity = one["quantity"].partition(".")[0]
    is_nan = one["nan"] and not may_be_undefined(one["unit"], one["health"])
    is_finite = not (one["inf"] or is_nan)
    is_looked_at = quantity in JUDGED or from_stored(one["health"]) == "share_of_trouble"
    is_judged = one["mode"] == "train" and is_finite and is_looked_at
    is_named = (one["module"], one["quantity"]) in named
    return one if is_named or not is_judged else {**one, "state": "ok"}


def _raised(one: dict[str, Any], graver: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    state = graver.get((one["module"], one["quantity"]), "ok")
    if one["mode"] != "train" or _GRAVITY.index(state) <= _GRAVITY.index(one["state"]):
        return one
    return {**one, "state": state}
