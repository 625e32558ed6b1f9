"""``taiyi-fx compare``: the first difference between two runs, or the largest between groups."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from taiyi_fx.cli.command import Commands, command, tolerance, whole
from taiyi_fx.cli.groups import GROUPS, groups_of
from taiyi_fx.cli.like import Matched, aligned_modules, place
from taiyi_fx.cli.opening import add_selection, opened
from taiyi_fx.cli.printing import as_json, many, more, say, table
from taiyi_fx.cli.refused import Refused
from taiyi_fx.cli.sizes import compare_sizes
from taiyi_fx.records.json_number import json_number

if TYPE_CHECKING:
    from taiyi_fx.cli.divergence import Divergence
    from taiyi_fx.runs import Run, SeriesName

_EXAMPLES = """
taiyi-fx compare runs/exp1 runs/exp2
taiyi-fx compare runs/cpu runs/gpu --rtol 1e-5 --quantity WeightGradNorm
taiyi-fx compare runs/exp1 runs/exp1-resumed --exclude 'Update*' --exclude MeanTID
taiyi-fx compare runs/exp1 runs/exp2 --json > parted.json || echo different
taiyi-fx compare 'runs/old-*' 'runs/new-*'            # what differs more than seeds do
taiyi-fx compare runs/a runs/b --by size              # what differs most, not what does first
"""

_FEW = 5
"""The most series shown one by one that differ only in the steps that they have."""


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    added = command(
        commands,
        "compare",
        "find the first step at which two runs differ, or what differs most between groups",
        _run,
        _EXAMPLES,
    )
    added.add_argument("path", metavar="RUN", help=f"the first; {GROUPS}")
    added.add_argument(
        "others", metavar="RUN", nargs="+", help="others, each compared with the first"
    )
    added.add_argument(
        "--by",
        choices=("step", "size"),
        help="the first step at which values differ, which is of two runs; or the typical sizes of "
        "series, where what differs more than runs of one group do comes first (default: step for "
        "two runs, size for more)",
    )
    for name, what in (("rtol", "relative to the second run's value"), ("atol", "absolute")):
        added.add_argument(
            f"--{name}", type=tolerance, default=0.0, help=f"tolerance, {what} (default: 0)"
        )
    add_selection(added)
    added.add_argument(
        "--limit", type=whole, default=20, help="show at most this many series (default: 20)"
    )
    added.add_argument("--json", action="store_true", help="all of it as JSON")


def _run(given: Namespace) -> int:
    groups = groups_of([given.path, *given.others])
    is_of_two = len(groups) == 2 and all(len(group) == 1 for group in groups)
    if given.by == "step" and not is_of_two:
        raise Refused("--by step is of two runs: give --by size for groups, or for more than two")
    is_by_size = given.by == "size" or not is_of_two
    if is_by_size and (given.rtol or given.atol):
        raise Refused("--rtol and --atol are of --by step, which compares two runs value by value")
    with ExitStack() as stack:
        runs = [[stack.enter_context(opened(path)) for path in group] for group in groups]
        if is_by_size:
            return compare_sizes(runs, groups, given)
        return _compare_steps(runs[0][0], runs[1][0], given)


def _compare_steps(one: Run, other: Run, given: Namespace) -> int:
    found = _compared(one, other, given)
    if given.json:
        say(as_json(_plain_found(found)))
    else:
        _show(found, given)
    return 1 if found.differ or found.only else 0


class _Found(NamedTuple):
    """The result of a comparison.

    Attributes:
        compared: The number of series that both runs have.
        differ: Those that differ, those whose values do before those that lack some, by their first
            divergence, then in the first run's order.
        only: Those that one run alone has: 0 for the first, 1 for the second.
        aligned: The number of modules that have another name in the second.
    """

    compared: int
    differ: dict[SeriesName, Divergence]
    only: dict[SeriesName, int]
    aligned: int

    @property
    def gaps(self) -> dict[SeriesName, Divergence]:
        """The number of series that lack values in one run and agree everywhere else."""
        return {name: first for name, first in self.differ.items() if not first.is_of_values}


def _compared(one: Run, other: Run, given: Namespace) -> _Found:
    from taiyi_fx.cli.divergence import divergences

    both, only = Matched.of(one, other, given)
    differ = divergences(one, other, both, given.rtol, given.atol)
    ordered = dict(sorted(differ.items(), key=lambda item: item[1].order))
    return _Found(len(both), ordered, only, aligned_modules(both))


def _show(found: _Found, given: Namespace) -> None:
    paths = given.path, given.others[0]
    say(_summary(found) + _aligned(found.aligned))
    gaps, listed = found.gaps, found.differ
    if len(gaps) > _FEW:
        listed = {name: first for name, first in listed.items() if name not in gaps}
    if listed:
        say("\n" + _table(listed, given.limit))
    if len(gaps) > _FEW:
        say("\n" + _told(gaps))
    if found.only:
        rows = [(*name, paths[run]) for name, run in list(found.only.items())[: given.limit]]
        head = ("module", "quantity", "mode", "only in")
        say("\n" + table(head, rows) + more(len(found.only), given.limit))


def _table(differ: Mapping[SeriesName, Divergence], limit: int) -> str:
    head = "step", "module", "quantity", "mode", "first run", "second run", "steps that differ"
    rows = [_row(*item) for item in list(differ.items())[:limit]]
    return table(head, rows) + more(len(differ), limit)


def _told(gaps: Mapping[SeriesName, Divergence]) -> str:
    (name, first), *_ = gaps.items()
    return (
        f"{len(gaps):,} series lack values in one run, first at step {first.step} in "
        f"{place(name)}: --json lists them"
    )


def _summary(found: _Found) -> str:
    gaps, only = len(found.gaps), len(found.only)
    if not found.differ:
        in_one = f"{many(only, 'series|series')} in one run only; " if only else ""
        return f"{in_one}no difference in the {found.compared:,} series of both"
    (name, first), *_ = found.differ.items()
    parts = []
    if first.is_of_values:
        parts.append(f"{len(found.differ) - gaps:,} of {found.compared:,} series differ")
    if gaps:
        parts.append(f"{gaps:,} of {found.compared:,} series lack values in one run")
    if only:
        parts.append(f"{only:,} are in one run only")
    where = f"first divergence at step {first.step} in {place(name)}"
    head = where if first.is_of_values else "no difference where both runs have a value"
    return f"{head}: {', '.join(parts)}"


def _aligned(count: int) -> str:
    return f" ({many(count, 'module')} aligned by structure)" if count else ""


def _row(name: SeriesName, found: Divergence) -> tuple[str, ...]:
    values = _text(found.one), _text(found.other)
    if values[0] == values[1]:
        values = repr(found.one), repr(found.other)
    return str(found.step), *name, *values, f"{found.differing:,} of {found.steps:,}"


def _text(value: float | str | None) -> str:
    if value is None:
        return "nothing"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _plain_found(found: _Found) -> dict[str, Any]:
    return {
        "equal": not found.differ and not found.only,
        "compared": found.compared,
        "aligned": found.aligned,
        "differ": [
            {
                **name._asdict(),
                **first._asdict(),
                "one": _plain(first.one),
                "other": _plain(first.other),
            }
            for name, first in found.differ.items()
        ],
        "only": [
            {**name._asdict(), "run": ("one", "other")[run]} for name, run in found.only.items()
        ],
    }


def _plain(value: float | str | None) -> float | str | None:
    return json_number(value) if isinstance(value, float) else value
