"""``taiyi-fx diff``: the first place where two runs part, in bits and beyond rounding."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any, NamedTuple

from taiyi_fx.cli.command import Commands, command, tolerance, whole
from taiyi_fx.cli.like import Matched, aligned_modules, place
from taiyi_fx.cli.opening import add_selection, opened
from taiyi_fx.cli.printing import as_json, many, more, say, table
from taiyi_fx.cli.refused import Refused
from taiyi_fx.records.json_number import json_number

if TYPE_CHECKING:
    from taiyi_fx.cli.like import Named
    from taiyi_fx.cli.parting import Parted
    from taiyi_fx.runs import Run, SeriesName

_EXAMPLES = """
taiyi-fx diff runs/before runs/after                # bit for bit, as after tidying up
taiyi-fx diff runs/eager runs/compiled --ignore-bits
taiyi-fx diff runs/cpu runs/gpu --ignore-bits --rtol 1e-4 --json > parted.json
"""

_RTOL = 1e-5


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    about = "find the first module at which two trainings part: in bits, and by more than rounding"
    added = command(commands, "diff", about, _run, _EXAMPLES)
    added.add_argument("path", metavar="RUN", help="a run's folder")
    added.add_argument("other", metavar="RUN", help="another run's folder")
    added.add_argument(
        "--rtol",
        type=tolerance,
        default=_RTOL,
        help="relative difference that numbers may have at the first step; at the n-th n times as "
        f"much, as rounding grows (default: {_RTOL:g})",
    )
    added.add_argument(
        "--ignore-bits",
        action="store_true",
        help="say where bits part, but count numbers alone for the exit code",
    )
    add_selection(added)
    added.add_argument(
        "--limit", type=whole, default=10, help="show at most this many of a kind (default: 10)"
    )
    added.add_argument("--json", action="store_true", help="all of it as JSON")


class _Found(NamedTuple):
    """The result.

    Attributes:
        fingerprints: The number of fingerprints that both have.
        numbers: The number of other series that both have.
        bits: The fingerprints that part, the first one first.
        beyond: The series whose numbers part by more than rounding.
        only: The modules that one run alone has: 0 for the first, 1 for the second.
        aligned: The number of modules that have another name in the second.
        apart: The number of modules that both have, and at no step both.
    """

    fingerprints: int
    numbers: int
    bits: list[Parted]
    beyond: list[Parted]
    only: dict[str, int]
    aligned: int
    apart: int = 0


def _run(given: Namespace) -> int:
    with opened(given.path) as one, opened(given.other) as other:
        found = _diff(one, other, given)
    say(as_json(_plain(found)) if given.json else _text(found, given))
    return int(bool(found.beyond or found.only or (found.bits and not given.ignore_bits)))


def _diff(one: Run, other: Run, given: Namespace) -> _Found:
    from taiyi_fx.cli.parting import (
        fingerprint_of,
        parted_bits,
        parted_numbers,
        without_shared_steps,
    )

    matched, only = Matched.of(one, other, given)
    apart = without_shared_steps(one, other, matched)
    both = {name: like for name, like in matched.items() if name not in apart}
    if not both and (apart or not only):
        raise Refused(_incomparable(one, other, given))
    halves = {name: like for name, like in both.items() if fingerprint_of(name)}
    others = {name: like for name, like in both.items() if name not in halves}
    return _Found(
        len({fingerprint_of(name) for name in halves}),
        len(others),
        parted_bits(one, other, halves),
        parted_numbers(one, other, others, given.rtol),
        _only(matched, only),
        aligned_modules(both),
        len({name.module for name in apart} - {name.module for name in both}),
    )


def _only(both: Named, only: dict[SeriesName, int]) -> dict[str, int]:
    """The modules of which no series is in both runs, nor one in each."""
    sides: dict[str, set[int]] = {name.module: {0, 1} for name in both}
    for name, side in only.items():
        sides.setdefault(name.module, set()).add(side)
    return {module: side for module, (side, *rest) in sides.items() if not rest}


def _incomparable(one: Run, other: Run, given: Namespace) -> str:
    """The reason why two runs have nothing that could be compared."""

    def of(run: Run, path: str) -> str:
        spans = run.spans().values()
        if not spans:
            return f"{path} has no numbers"
        return f"{path} has steps {min(s.first for s in spans)} to {max(s.last for s in spans)}"

    return (
        "there is nothing to compare, no step that both runs recorded: "
        f"{of(one, given.path)}, {of(other, given.other)}"
    )


def _text(found: _Found, given: Namespace) -> str:
    parts = [_summary(found)]
    if found.bits:
        first = found.bits[0].step
        there = [p for p in found.bits if p.step == first]
        rows = [tuple(p.name) for p in there[: given.limit]]
        title = f"{many(len(there), 'fingerprint')} parted at step {first}, in this order:"
        parts.append(
            f"{title}\n\n{table(('module', 'quantity', 'mode'), rows)}"
            + more(len(there), given.limit)
        )
    if found.beyond:
        rows = [_row(p) for p in found.beyond[: given.limit]]
        head = ("step", "module", "quantity", "mode", "first run", "second run", "apart", "allowed")
        parts.append(table(head, rows) + more(len(found.beyond), given.limit))
    if found.only:
        paths = given.path, given.other
        rows = [(module, paths[run]) for module, run in [*found.only.items()][: given.limit]]
        parts.append(table(("module", "only in"), rows) + more(len(found.only), given.limit))
    return "\n\n".join(parts)


def _summary(found: _Found) -> str:
    lines = []
    if found.bits:
        lines.append(f"bits part at step {found.bits[0].step} in {place(found.bits[0].name)}")
    elif found.fingerprints:
        lines.append(f"all bits are the same: {many(found.fingerprints, 'fingerprint')}")
    else:
        lines.append("no fingerprints to compare: record Fingerprint to see where bits part")
    if found.beyond:
        first = found.beyond[0]
        lines.append(
            f"numbers part by more than rounding at step {first.step} in {place(first.name)}"
        )
    elif found.numbers:
        lines.append(f"numbers agree up to rounding: {many(found.numbers, 'series|series')}")
    if found.only:
        lines.append(f"{many(len(found.only), 'module')} in one run only")
    if found.apart:
        lines.append(
            f"{many(found.apart, 'module')} not compared: recorded at no step in both runs"
        )
    if found.aligned:
        lines.append(f"{many(found.aligned, 'module')} aligned by structure")
    return "\n".join(lines)


def _row(parted: Parted) -> tuple[str, ...]:
    assert parted.one is not None
    assert parted.other is not None
    apart = f"{abs(parted.one - parted.other):.2g}"
    values = f"{parted.one:.9g}", f"{parted.other:.9g}", apart, f"{parted.allowed:.2g}"
    return str(parted.step), *parted.name, *values


def _plain(found: _Found) -> dict[str, Any]:
    return {
        "fingerprints": found.fingerprints,
        "numbers": found.numbers,
        "bits": [{"step": p.step, **p.name._asdict()} for p in found.bits],
        "beyond": [
            {
                "step": p.step,
                **p.name._asdict(),
                "one": json_number(p.one),
                "other": json_number(p.other),
                "allowed": p.allowed,
            }
            for p in found.beyond
            if p.one is not None and p.other is not None
        ],
        "only": [{"module": m, "run": ("one", "other")[run]} for m, run in found.only.items()],
        "aligned": found.aligned,
        "apart": found.apart,
    }
