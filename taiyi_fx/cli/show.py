"""``taiyi-fx show``: a summary of a run."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from taiyi_fx.cli.command import Commands, command
from taiyi_fx.cli.opening import add_selection, opened, selected
from taiyi_fx.cli.printing import as_json, headed, many, printable, say, table
from taiyi_fx.records.json_number import json_number

if TYPE_CHECKING:
    from taiyi_fx.findings import Finding
    from taiyi_fx.runs import Curve, Run, SeriesName, Span

_EXAMPLES = """
taiyi-fx show runs/exp1
taiyi-fx show runs/exp1 --module 'layer4.*' --quantity WeightNorm
taiyi-fx show runs/exp1 --mode eval --events
taiyi-fx show runs/exp1 --json
"""
_KINDS = {
    "non_finite": "first NaN or Inf",
    "overflow": "overflow under the scaler",
    "finding": "finding reported in training",
}

_HEAD = ("module", "quantity", "mode", "steps", "first", "last", "min", "max", "NaN", "Inf")


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    added = command(commands, "show", "show what a run recorded, and its findings", _run, _EXAMPLES)
    added.add_argument("path", metavar="RUN", help="the run's folder")
    add_selection(added)
    added.add_argument(
        "--events", action="store_true", help="warnings and first sites of NaN or Inf too"
    )
    added.add_argument("--json", action="store_true", help="all of it as JSON")


def _run(given: Namespace) -> int:
    with opened(given.path) as run:
        spans = run.spans()
        names = selected(spans, given)
        numbers = {name: _numbers(curve) for name, curve in run.curves(names).items()}
        chosen = {name: spans[name] for name in names}
        if given.json:
            shown = as_json(_told(run, chosen, numbers))
        else:
            zeros = set() if given.quantity else _counts_of_nothing(run, numbers)
            rows = [_row(n, span, numbers.get(n)) for n, span in chosen.items() if n not in zeros]
            found = run.findings
            here = _of_shown(found, names) if len(names) < len(spans) else found
            head = headed(_head(given.path, run, spans, _counts(found, here)))
            parts = [head, *(printable(str(one)) for one in here), table(_HEAD, rows)]
            parts += [_of_nothing(zeros)] if zeros else []
            shown = "\n\n".join([*parts, _events(run)] if given.events else parts)
    say(shown)
    return 0


def _of_shown(found: Sequence[Finding], names: Sequence[SeriesName]) -> list[Finding]:
    """The findings in series that are shown, by themselves or by what follows from them."""
    shown = {(name.module, name.quantity) for name in names if name.mode == "train"}
    return [one for one in found if any((e.module, e.quantity) in shown for e in _each(one))]


def _each(one: Finding) -> Iterator[Finding]:
    yield one
    for following in one.consequences:
        yield from _each(following)


def _counts(found: Sequence[Finding], here: Sequence[Finding]) -> str:
    counted = ", ".join(_counted(one.severity for one in found)) or "none"
    return counted if len(here) == len(found) else f"{counted}; {len(here)} of what is shown"


def _counts_of_nothing(run: Run, numbers: Mapping[SeriesName, _CurveSummary]) -> set[SeriesName]:
    """The series that count NaN and Inf, and found none."""
    counts = {s.series_name for s in run.source.series() if s.health == "counts_non_finite"}
    return {name for name, of in numbers.items() if name in counts and not (of.max or of.nan)}


def _of_nothing(zeros: set[SeriesName]) -> str:
    names = ", ".join(sorted({name.quantity for name in zeros}))
    count = many(len(zeros), "more series|more series")
    return f"{count} counted no NaN or Inf, and --quantity shows them: {names}"


def _events(run: Run) -> str:
    # A text of several lines is one row.
    texts = [" ".join(line.strip() for line in e.text.splitlines()) for e in run.events]
    rows = [(str(e.step), e.kind, e.module, t) for e, t in zip(run.events, texts, strict=True)]
    return table(("step", "event", "module", "text"), rows)


class _CurveSummary(NamedTuple):
    """A summary of a curve; its smallest and largest finite values."""

    first: float
    last: float
    min: float
    max: float
    nan: int
    inf: int


def _numbers(curve: Curve) -> _CurveSummary:
    import numpy as np

    values = curve.values
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if len(finite) else (np.nan, np.nan)
    first, last, low, high = map(float, (values[0], values[-1], low, high))
    nan, inf = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    return _CurveSummary(first, last, low, high, nan, inf)


def _head(path: str, run: Run, spans: Mapping[SeriesName, Span], findings: str) -> dict[str, str]:
    numbers = sum(span.numbers for span in spans.values())
    kinds = Counter(_KINDS.get(event.kind, event.kind) for event in run.events)
    resumed = [str(session.start_step) for session in run.sessions[1:]]
    entries = {
        "run": path,
        "model": run.model,
        "versions": ", ".join(f"{name} {version}" for name, version in run.versions.items()),
        "steps": _steps(list(spans.values())),
        "epochs": str(len(run.epochs)),
        "series": f"{len(spans):,} ({many(numbers, 'value')})",
        "findings": findings,
        "events": ", ".join(f"{count} x {kind}" for kind, count in kinds.items()) or "none",
    }
    return {**entries, "resumed": f"at step {', '.join(resumed)}"} if resumed else entries


def _counted(severities: Iterable[str]) -> list[str]:
    return [many(count, severity) for severity, count in Counter(severities).items()]


def _steps(spans: Sequence[Span]) -> str:
    if not spans:
        return "none"
    return f"{min(span.first for span in spans)} ... {max(span.last for span in spans)}"


def _row(name: SeriesName, span: Span, numbers: _CurveSummary | None) -> tuple[str, ...]:
    steps = (
        f"{span.first} ... {span.last} ({span.numbers})" if span.numbers > 1 else str(span.first)
    )
    if numbers is None:
        return *name, steps, "tensors", "", "", "", "", ""
    *values, nan, inf = numbers
    return *name, steps, *(f"{value:.4g}" for value in values), str(nan), str(inf)


def _told(
    run: Run, spans: Mapping[SeriesName, Span], numbers: Mapping[SeriesName, _CurveSummary]
) -> dict[str, Any]:
    from taiyi_fx.findings.as_json import as_json as finding_json  # takes numpy

    return {
        "model": run.model,
        "versions": dict(run.versions),
        "seed": run.seed,
        "start_steps": [session.start_step for session in run.sessions],
        "epochs": [epoch._asdict() for epoch in run.epochs],
        "series": [
            {
                **name._asdict(),
                "first_step": span.first,
                "last_step": span.last,
                "values": span.numbers,
                **_numbers_json(numbers.get(name)),
            }
            for name, span in spans.items()
        ],
        "findings": [finding_json(found) for found in run.findings],
        "events": [event._asdict() for event in run.events],
    }


def _numbers_json(numbers: _CurveSummary | None) -> dict[str, Any]:
    if numbers is None:
        return {"tensors": True}
    return {name: json_number(value) for name, value in numbers._asdict().items()}
