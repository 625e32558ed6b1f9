"""``taiyi-fx show``: a summary of a run."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from taiyi_fx.cli.command import Commands, command
from taiyi_fx.cli.opening import add_selection, opened, selected
from taiyi_fx.cli.printing import as_json, headed, many, printable, say, table
from taiyi_fx.quantities.in_words import in_words
from taiyi_fx.records.json_number import json_number

if TYPE_CHECKING:
    from taiyi_fx.findings import Finding
    from taiyi_fx.findings.facts.telling import Telling
    from taiyi_fx.runs import Curve, Run, SeriesName, Span

_EXAMPLES = """
taiyi-fx show runs/exp1
taiyi-fx show runs/exp1 --all
taiyi-fx show runs/exp1 --module 'layer4.*' --quantity WeightNorm
taiyi-fx show runs/exp1 --mode eval --events
taiyi-fx show runs/exp1 --json
"""
_KINDS = {
    "non_finite": "first NaN or Inf",
    "overflow": "overflow under the scaler",
    "finding": "finding reported in training",
}

_NO_VALUE = "- is no value: it is a ratio of zero by zero, or the like, which nothing defines"

_NONE = "none of the known ones was recognised; another fault may be there"
_MOST_TELLING = "Most changed, or differ most from their siblings:"
_MOST_MOVED = "What changed most, from the median of its first numbers to that of its last ones:"
_MOST_ROWS = 10
_MOST_CHANGED = 3

_HEAD = (
    "module",
    "quantity",
    "what it is",
    "mode",
    "steps",
    "first",
    "last",
    "min",
    "max",
    "NaN",
    "Inf",
)


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    added = command(commands, "show", "show what a run recorded, and its findings", _run, _EXAMPLES)
    added.add_argument("path", metavar="RUN", help="the run's folder")
    add_selection(added)
    added.add_argument(
        "--events", action="store_true", help="warnings and first sites of NaN or Inf too"
    )
    added.add_argument(
        "--all", action="store_true", help="all series, where not those that tell most alone"
    )
    added.add_argument("--json", action="store_true", help="all of it as JSON")


def _run(given: Namespace) -> int:
    with opened(given.path) as run:
        spans = run.spans()
        names = selected(spans, given)
        curves = run.curves(spans)
        every = {name: _numbers(curve) for name, curve in curves.items()}
        chosen = {name: spans[name] for name in names}
        if given.json:
            shown = as_json(_told(run, chosen, every))
        else:
            found = run.findings
            here = _of_shown(found, names) if len(names) < len(spans) else found
            head = headed(_head(given.path, run, spans, _counts(found, here)))
            telling = _telling(run, curves)
            parts = [head, *(printable(str(one)) for one in here)]
            parts += [_changed(telling)] if not found else []
            parts += _tables(run, given, chosen, every, telling)
            shown = "\n\n".join([*filter(None, parts), *([_events(run)] if given.events else [])])
    say(shown)
    return 0


def _tables(
    run: Run,
    given: Namespace,
    chosen: Mapping[SeriesName, Span],
    numbers: Mapping[SeriesName, _CurveSummary],
    telling: Mapping[SeriesName, Telling],
) -> Iterator[str]:
    """The rows of the chosen series, and what there is to say of them."""
    zeros = set() if given.quantity or given.all else _counts_of_nothing(run, numbers)
    zeros &= set(chosen)
    listed = [name for name in chosen if name not in zeros]
    is_cut = len(listed) > _MOST_ROWS and not _is_asked(given)
    if is_cut:
        listed = sorted(listed, key=lambda name: -_score(name, telling))[:_MOST_ROWS]
    lacking = _without_value(run, numbers).intersection(listed)
    rows = [_row(n, chosen[n], numbers.get(n), lacks_value=n in lacking) for n in listed]
    yield _MOST_TELLING if is_cut else ""
    yield table(_HEAD, rows)
    yield _of_nothing(zeros) if zeros else ""
    yield _NO_VALUE if lacking else ""
    if is_cut:
        rest = many(len(chosen) - len(listed) - len(zeros), "more series|more series")
        yield f"{rest}: --all shows them; --module and --quantity choose some, by * ? [ ]"


def _is_asked(given: Namespace) -> bool:
    return bool(given.all or given.module or given.quantity or given.exclude or given.mode)


def _telling(run: Run, curves: Mapping[SeriesName, Curve]) -> dict[SeriesName, Telling]:
    """How much each series of training tells."""
    from taiyi_fx.findings import Watched  # takes numpy
    from taiyi_fx.findings.facts.telling import telling
    from taiyi_fx.runs import SeriesName

    series = [s for s in run.source.series() if s.mode == "train" and s.series_name in curves]
    found = telling(
        [
            Watched.made(s.series_name[:2], (s.direction, s.health, s.unit), *curves[s.series_name])
            for s in series
        ]
    )
    return {SeriesName(*name, "train"): how for name, how in found.items()}


def _score(name: SeriesName, telling: Mapping[SeriesName, Telling]) -> float:
    return telling[name].score if name in telling else 0.0


def _changed(telling: Mapping[SeriesName, Telling]) -> str:
    """A few lines to begin with when nothing was found."""
    from taiyi_fx.findings.facts.telling import changed_most  # takes numpy

    known = {name[:2]: how for name, how in telling.items()}
    named = {
        f"{quantity} of {module or 'the model'}": known[module, quantity]
        for module, quantity in changed_most(known, _MOST_CHANGED)
    }
    shown = {name: f"from {how.first:.4g} to {how.last:.4g}" for name, how in named.items()}
    return f"{_MOST_MOVED}\n{headed(shown)}" if shown else ""


def _of_shown(found: Sequence[Finding], names: Sequence[SeriesName]) -> list[Finding]:
    """The findings in series that are shown, by themselves or by what follows from them."""
    shown = {(name.module, name.quantity) for name in names if name.mode == "train"}
    return [one for one in found if any((e.module, e.quantity) in shown for e in _each(one))]


def _each(one: Finding) -> Iterator[Finding]:
    yield one
    for following in one.consequences:
        yield from _each(following)


def _counts(found: Sequence[Finding], here: Sequence[Finding]) -> str:
    if not found:
        return _NONE
    counted = ", ".join(_counted(one.severity for one in found))
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


def _without_value(run: Run, numbers: Mapping[SeriesName, _CurveSummary]) -> set[SeriesName]:
    """The series of which nothing defines the NaN, as of ratios of zero by zero."""
    from taiyi_fx.findings.facts.undefined import Counted, are_undefined  # takes numpy

    told = {s.series_name: (s.unit, s.health) for s in run.source.series()}
    counted = [Counted(n.module, n.mode, *told[n], of.nan, of.inf) for n, of in numbers.items()]
    return {name for name, is_so in zip(numbers, are_undefined(counted), strict=True) if is_so}


def _row(
    name: SeriesName, span: Span, numbers: _CurveSummary | None, *, lacks_value: bool
) -> tuple[str, ...]:
    steps = (
        f"{span.first} ... {span.last} ({span.numbers})" if span.numbers > 1 else str(span.first)
    )
    about = name.module, name.quantity, in_words(name.quantity), name.mode, steps
    if numbers is None:
        return *about, "tensors", "", "", "", "", ""
    *values, nan, inf = numbers
    shown = ["-" if lacks_value and value != value else f"{value:.4g}" for value in values]
    return *about, *shown, str(nan), str(inf)


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
