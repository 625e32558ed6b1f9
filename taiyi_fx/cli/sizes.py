"""``taiyi-fx compare`` of groups: what differs more than runs of one group do comes first."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from taiyi_fx.cli.like import aligned_modules, under_names_of
from taiyi_fx.cli.opening import selected
from taiyi_fx.cli.printing import as_json, many, more, printable, say, table

if TYPE_CHECKING:
    from taiyi_fx.pictures.report.differences import Difference, Key
    from taiyi_fx.runs import Run

Groups = Sequence[Sequence[str]]
"""The folders of runs, group by group."""


class _Found(NamedTuple):
    """The result of a comparison.

    Attributes:
        differ: The differences, the largest in terms of a group's spread first.
        compared: The number of series that all runs have.
        partial: The number of those that some lack.
        aligned: The number of modules that have another name in the first run.
    """

    differ: list[Difference]
    compared: int
    partial: int
    aligned: int


def compare_sizes(runs: Sequence[Sequence[Run]], groups: Groups, given: Namespace) -> int:
    """Shows the series that differ in size between groups; returns the exit code, which is 0."""
    found = _compared(runs, given)
    if given.json:
        say(as_json(_plain(found, groups)))
    else:
        _show(found, groups, given.limit)
    return 0


def _compared(runs: Sequence[Sequence[Run]], given: Namespace) -> _Found:
    from taiyi_fx.pictures.report.differences import differences

    first = runs[0][0]
    spans = first.spans()
    count = 0
    groups: list[list[dict[Key, float]]] = []
    for group in runs:
        groups.append([])
        for run in group:
            named = under_names_of(first, run, spans)
            count += aligned_modules(named)
            groups[-1].append(_sizes(run, {name: named[name] for name in selected(named, given)}))
    every = [set(run) for group in groups for run in group]
    shared = set.intersection(*every)
    differ = [one for one in differences(groups, None) if one.is_beyond_spread]
    return _Found(differ, len(shared), len(set.union(*every) - shared), count)


def _sizes(run: Run, named: dict[Any, Any]) -> dict[Key, float]:
    from taiyi_fx.pictures.report.differences import size

    curves = run.curves(named.values())
    found = {name: size(curves[own].values) for name, own in named.items() if own in curves}
    return {tuple(name): value for name, value in found.items() if value is not None}


def _show(found: _Found, groups: Groups, limit: int) -> None:
    say(_summary(found, groups))
    if found.differ:
        head = ("module", "quantity", "mode", "factor", *_within(groups, "within groups"), "in")
        rows = [_row(one, groups) for one in found.differ[:limit]]
        say("\n" + table(head, rows) + more(len(found.differ), limit))


def _summary(found: _Found, groups: Groups) -> str:
    (than,) = _within(groups, "more than runs of one group do") or ("in size",)
    parts = [f"{len(found.differ):,} of {found.compared:,} series differ {than}"]
    if found.partial:
        parts.append(f"{found.partial:,} are not in all runs")
    if found.aligned:
        parts.append(f"{many(found.aligned, 'module')} aligned by structure")
    return ", ".join(parts)


def _within(groups: Groups, text: str) -> tuple[str, ...]:
    """A text, where a group has several runs; else none."""
    return (text,) if any(len(group) > 1 for group in groups) else ()


def _row(one: Difference, groups: Groups) -> tuple[str, ...]:
    spread = f"up to {_factor(one.spread)}" if one.spread is not None else ""
    within = _within(groups, spread)
    name = one.module, one.quantity, one.mode
    return (*name, _factor(one.factor), *within, _label(one, groups))


def _factor(factor: float) -> str:
    return f"x {factor:.3g}"


def _label(one: Difference, groups: Groups) -> str:
    group = _group_at(one.place, groups)
    rest = f" and {len(group) - 1} more" if len(group) > 1 else ""
    return f"{printable(group[0])}{rest}"


def _group_at(place: int, groups: Groups) -> Sequence[str]:
    """The group whose first run has a place among all runs."""
    for group in groups:
        if place < len(group):
            return group
        place -= len(group)
    raise IndexError(place)


def _plain(found: _Found, groups: Groups) -> dict[str, Any]:
    differ = [
        {
            **{name: value for name, value in one._asdict().items() if name != "place"},
            "runs": [*_group_at(one.place, groups)],
        }
        for one in found.differ
    ]
    return {
        "groups": [[*group] for group in groups],
        "compared": found.compared,
        "partial": found.partial,
        "aligned": found.aligned,
        "differ": differ,
    }
