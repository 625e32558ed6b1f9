"""The score: whether the first finding of a training names the culprit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.faults.fault import Fault, Healthy
from benchmarks.faults.kept import findings_by
from benchmarks.faults.sound.training import Sound, looks
from benchmarks.faults.training import run

SERIOUS = ("alert", "warning")
"""The severities that count."""


@dataclass(frozen=True)
class Outcome:
    """What was found in one training.

    Attributes:
        label: The training's.
        part: `tuning`, `held_out`, `healthy` or `sound`.
        expected: Culprits, or nothing for a healthy or sound training.
        first: The first finding that counts, as a dictionary.
        found: How many count.
        is_right: Whether the first names the culprit, or nothing was found where nothing is wrong.
        is_named: Whether any of them does.
        looks: How often one looked.
    """

    label: str
    part: str
    expected: str
    first: dict[str, Any] | None
    found: int
    is_right: bool
    is_named: bool
    looks: int = 1


def score(
    case: Fault | Healthy | Sound, *, is_preset: bool = False, kept: Path | None = None
) -> Outcome:
    """Trains, and judges what was found.

    Args:
        case: The training.
        is_preset: Whether it is watched as `taiyi_fx.instrument` does without a configuration, as
            a sound one always is.
        kept: Judge what today's rules find in the evidence that lies in this folder; one trains
            only where there is none of this training, which is added.
    """
    if kept is None:
        seen = _findings(case, is_preset=is_preset)
    else:
        folder = kept / ("preset" if is_preset else "own")
        train = partial(_findings, case, is_preset=is_preset)
        seen = findings_by(folder, _name(case), train)
    told = [finding for findings in seen for finding in findings]
    serious = [finding for finding in told if finding.severity in SERIOUS]
    if not isinstance(case, Fault):
        return replace(_outcome(case, "", serious, [not serious]), looks=len(seen))
    names = case.training().names
    counted = told if case.notes else serious
    culprits = [culprit.format_map(names) for culprit in case.culprits]
    right = [names_culprit(finding, culprits, case.kinds) for finding in counted]
    return _outcome(case, ", ".join(c or '""' for c in culprits), counted, right)


def _findings(case: Fault | Healthy | Sound, *, is_preset: bool) -> list[Any]:
    """What each look at a training finds; the monitor may be one without findings."""
    if isinstance(case, Sound):
        return [look.findings for look in looks(case)]
    watched: Any = run(replace(case.training(), is_preset=is_preset))
    return [watched.monitor.findings]


def _name(case: Fault | Healthy | Sound) -> str:
    return f"{case.label} seed {case.seed}" if isinstance(case, Sound) else case.label


def names_culprit(finding: Any, culprits: Sequence[str], kinds: str | None) -> bool:
    """Whether a finding is of one of the culprits, in any of its calls, or of a right kind.

    Args:
        finding: What has a `module` and a `kind`.
        culprits: Patterns of modules' names.
        kinds: A regular expression, which may match any part of a kind.
    """
    module = finding.module.partition("@")[0]
    # A block as a whole is named where all within it are culprits.
    names = (module, f"{module}.") if module else ("",)
    if any(fnmatchcase(name, culprit) for name in names for culprit in culprits):
        return True
    return kinds is not None and re.search(kinds, finding.kind) is not None


def table(outcomes: Iterable[Outcome]) -> str:
    """A line for each training: what was expected and what was found first."""
    rows = [("", "training", "expected", "found first", "kind", "step", "text")]
    rows += [_row(outcome) for outcome in outcomes]
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    return "\n".join(
        "  ".join([*(f"{cell:{w}}" for cell, w in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    )


def shares(outcomes: Sequence[Outcome]) -> str:
    """The shares of culprits that were named, and of sound trainings that were accused."""
    lines = []
    for part in ("tuning", "held_out"):
        of = [outcome for outcome in outcomes if outcome.part == part]
        if of:
            lines.append(
                f"{part}: culprit first {_share([o.is_right for o in of])}, "
                f"culprit among the findings {_share([o.is_named for o in of])}, "
                f"any finding {_share([bool(o.found) for o in of])}"
            )
    for part in ("healthy", "sound"):
        of = [outcome for outcome in outcomes if outcome.part == part]
        if of:
            count = sum(outcome.looks for outcome in of)
            lines.append(
                f"{part}: false alarms {_share([not o.is_right for o in of])}, {count} looks"
            )
    return "\n".join(lines)


def _outcome(
    case: Fault | Healthy | Sound, expected: str, counted: Sequence[Any], right: Sequence[bool]
) -> Outcome:
    first = counted[0] if counted else None
    told = first and {
        name: getattr(first, name) for name in ("module", "kind", "quantity", "step", "text")
    }
    is_right, is_named = bool(right and right[0]), any(right)
    return Outcome(case.label, case.part, expected, told, len(counted), is_right, is_named)


def _row(outcome: Outcome) -> tuple[str, ...]:
    first = outcome.first
    mark = "right" if outcome.is_right else "WRONG"
    if first is None:
        return mark, outcome.label, outcome.expected, "-", "", "", ""
    module, kind, step = first["module"] or '""', str(first["kind"]), str(first["step"])
    return mark, outcome.label, outcome.expected, module, kind, step, str(first["text"])


def _share(claims: Sequence[bool]) -> str:
    return f"{sum(claims)} of {len(claims)} ({100 * sum(claims) / len(claims):.0f} %)"
