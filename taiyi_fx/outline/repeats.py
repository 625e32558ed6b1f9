"""Repeats: consecutive identical parts, collapsed into the first of them and the rest."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import networkx as nx

from taiyi_fx.outline.items import Item, Kind
from taiyi_fx.outline.parts import Part, grouped
from taiyi_fx.outline.shapes import GIVEN

_LONGEST_PERIOD = 8


def collapse_repeats(inside: nx.DiGraph) -> nx.DiGraph:
    """A level with consecutive identical parts, or groups of parts, collapsed into folds.

    Repetitions that each feed the next one are collapsed from two on, if they have parts of their
    own; else from four modules, or from twelve operations in three repetitions. Modules side by
    side, such as the experts of a mixture, are collapsed from four.
    """
    for run in _runs(inside):
        members = run.parts
        if run.times == 2:
            inside, _ = grouped(inside, members, _item("fold", run))
            continue
        rest = run._replace(parts=members[run.period :])
        inside, group = grouped(inside, rest.parts, _item("rest", rest))
        inside, _ = grouped(inside, [*members[: run.period], group], _item("fold", run))
    return inside


class _Run(NamedTuple):
    """Consecutive parts that repeat the first `period` of them."""

    parts: list[Part]
    period: int

    @property
    def times(self) -> int:
        return len(self.parts) // self.period


# Two parts are equal if their signatures are: kinds, classes, marks, notes and inner edges, without
# names. A run of period p is a stretch in which each part equals the one p places later, so for
# each period one pass from the end counts how far such a stretch goes on from each place. That is
# linear in the number of parts, and the best run at a place is then a comparison of eight numbers.
# A run needs an edge from each repetition to the next to be collapsed early: equal layers side by
# side, such as the three projections of an attention, are better seen one by one.
def _runs(inside: nx.DiGraph) -> list[_Run]:
    """The runs of a level in order; of several at one place, the one that covers most."""
    parts = list(inside)
    alike = _alike([_signature(part) for part in parts])
    found: list[_Run] = []
    at = 0
    while at < len(parts):
        runs = [
            _Run(parts[at : at + (1 + repeats[at] // period) * period], period)
            for period, repeats in alike.items()
            if repeats[at] >= period
        ]
        worth = [run for run in runs if _is_worth_it(inside, run)]
        best = max(worth, key=lambda run: (len(run.parts), -run.period), default=None)
        if best is not None:
            found.append(best)
        at += len(best.parts) if best is not None else 1
    return found


def _alike(signatures: Sequence[object]) -> dict[int, list[int]]:
    """By period, for each place: how many places in a row equal the one a period later."""
    found: dict[int, list[int]] = {}
    for period in range(1, min(_LONGEST_PERIOD, len(signatures) // 2) + 1):
        repeats = [0] * (len(signatures) + 1)
        for at in reversed(range(len(signatures) - period)):
            is_same = signatures[at] == signatures[at + period]
            repeats[at] = repeats[at + 1] + 1 if is_same else 0
        found[period] = repeats
    return found


def _is_worth_it(inside: nx.DiGraph, run: _Run) -> bool:
    unit = run.parts[: run.period]
    has_parts = any(part.inside and part.item.kind != "plumbing" for part in unit)
    if has_parts and _is_chain(inside, run):
        return True
    if _has_modules(unit):
        return run.times >= 4 and (run.period == 1 or _is_chain(inside, run))
    return run.times >= 3 and len(run.parts) >= 12 and _is_chain(inside, run)


def _has_modules(parts: Sequence[Part]) -> bool:
    return any(part.item.kind in ("module", "python") for part in parts)


def _is_chain(inside: nx.DiGraph, run: _Run) -> bool:
    """True if each repetition feeds the next one."""
    units = [run.parts[i : i + run.period] for i in range(0, len(run.parts), run.period)]
    return all(
        any(inside.has_edge(a, b) for a in unit for b in after)
        for unit, after in itertools.pairwise(units)
    )


def _signature(part: Part, *, is_outermost: bool = True) -> object:
    """A value that is equal for two parts if they differ in nothing but their names."""
    item = part.item
    is_named = item.kind not in ("op", "plumbing") and is_outermost
    place = {inner: number for number, inner in enumerate(part.inside)}
    return (
        item.kind,
        "" if is_named else item.label,
        item.class_name,
        item.count,
        item.marks,
        _notes(part),
        tuple(_signature(inner, is_outermost=False) for inner in part.inside),
        tuple(sorted((place[a], place[b]) for a, b in part.inside.edges)),
    )


def _notes(part: Part) -> tuple[str, ...]:
    """The notes that tell parts apart.

    That of a parameter is its name. What is given to a part that holds others is given to these, or
    is nothing that it computes with: a cache that each block hands on has more in it behind each.
    """
    if part.item.kind == "parameter":
        return ()
    return tuple(note for note in part.item.notes if not (part.inside and note.startswith(GIVEN)))


def _item(kind: Kind, run: _Run) -> Item:
    unit = [part.item for part in run.parts[: run.period]]
    families = {item.family for item in unit}
    label, class_name = _names(run)
    family = families.pop() if len(families) == 1 else ""
    return Item(kind, label, class_name, family=family, count=run.times)


_SHOWN = 3


def _names(run: _Run) -> tuple[str, str]:
    """The label of a run, and the classes in it."""
    unit = [part.item for part in run.parts[: run.period]]
    classes = list(dict.fromkeys(item.class_name or item.label for item in unit))
    shown = " · ".join(classes[:_SHOWN]) + (" …" if len(classes) > _SHOWN else "")
    if not _has_modules(run.parts):
        return shown, ""
    named = [part.item.label for part in run.parts if _has_modules([part])]
    return named[0] if named[0] == named[-1] else f"{named[0]} … {named[-1]}", shown
