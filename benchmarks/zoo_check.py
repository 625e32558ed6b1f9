"""One case of the zoo: the plain model and the instrumented one, side by side."""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import nn

import taiyi_fx
from benchmarks.zoo_calls import QUANTITIES, Calls, Reading, is_leaf
from benchmarks.zoo_models.case import Case
from benchmarks.zoo_phases import Phase, run_phases, seed, train_step
from taiyi_fx.snapshot.bitwise import differences

_PHASES = ("first step", "second step", "evaluation")
_SHOWN = 6
# Here ordinary hooks read something else, or there is a gradient that has to be said missing;
# tests/test_any_model.py judges each by what it is.
_TESTED_APART = (
    "hard/a forward hook",
    "hard/a gradient inside the forward",
    "hard/an output that is a parameter",
)


@dataclass
class Result:
    """What a case showed.

    Attributes:
        name: The case's name.
        excluded: Why the case says nothing about taiyi_fx, if so.
        error: What taiyi_fx raised, if it did.
        problems: Everything that falls short.
        notes: What does not fall short but should be seen.
        is_equal: Whether every phase was bit for bit the plain model's.
        made: Calls of leaf modules by quantity.
        observed: Those of them that were recorded.
        plain_seconds: What a training forward of the plain model takes.
        instrument_seconds: What `instrument` took.
        is_graph: Whether the model became one graph.
        python: Parts that stayed Python, and why.
    """

    name: str
    excluded: str = ""
    error: str = ""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_equal: bool = False
    made: dict[str, int] = field(default_factory=dict)
    observed: dict[str, int] = field(default_factory=dict)
    plain_seconds: float = 0.0
    instrument_seconds: float = 0.0
    is_graph: bool = False
    python: dict[str, str] = field(default_factory=dict)

    @property
    def limit(self) -> float:
        """What `instrument` may take, in seconds."""
        return 3 * self.plain_seconds + 1

    @property
    def falls_short(self) -> bool:
        """Whether taiyi_fx does not do what it promises."""
        return bool(self.problems or self.error)


def check_case(case: Case) -> Result:
    """Runs a case; whatever goes wrong is in the result."""
    result = Result(case.name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            plain, counted, subject = _copies(case)
            expected = run_phases(plain, case)
            calls = Calls()
            with calls.watching(counted):
                train_step(counted, case, 0)
        except Exception as error:  # noqa: BLE001 - a case that cannot run is named
            result.excluded = f"the plain model fails: {told(error)}"
            return result
        result.plain_seconds = min(phase.seconds for phase in expected[:2])
        if not any(phase.has_gradient for phase in expected):
            result.notes.append("no parameter got a gradient other than zero")
        try:
            _check(result, case, subject, expected, calls)
        except Exception as error:  # noqa: BLE001 - a crash of one model must not end the run
            result.error = told(error)
    if result.falls_short:
        texts = [str(w.message) for w in caught if issubclass(w.category, taiyi_fx.MonitorWarning)]
        result.notes += [f"MonitorWarning: {text}" for text in dict.fromkeys(texts)]
    return result


def _copies(case: Case) -> tuple[nn.Module, nn.Module, nn.Module]:
    """Three models with the same weights, since not every model can be copied."""
    return build(case), build(case), build(case)


def build(case: Case) -> nn.Module:
    """The case's model in training, always with the same weights."""
    seed(0)
    return case.build().train()


def told(error: Exception) -> str:
    """An error and the line that raised it."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = f" ({frame.tb_frame.f_code.co_filename}:{frame.tb_lineno})" if frame else ""
    return f"{type(error).__name__}: {error}{place}"


def _check(
    result: Result, case: Case, subject: nn.Module, expected: list[Phase], calls: Calls
) -> None:
    started = time.process_time()
    instrumented = taiyi_fx.instrument(subject, {is_leaf: QUANTITIES})
    result.instrument_seconds = time.process_time() - started
    if result.instrument_seconds > result.limit:
        seconds = f"{result.instrument_seconds:.2f} s, more than {result.limit:.2f} s"
        # Times vary with the machine: told, and no failure.
        result.notes.append(f"instrument took {seconds}")
    result.python = dict(taiyi_fx.capture_of(instrumented).python)
    result.is_graph = not result.python
    monitor = taiyi_fx.monitor_of(instrumented)
    _compare(result, case, expected, run_phases(instrumented, case, monitor.track))
    if not result.excluded:
        observed = {
            (record.module, record.quantity): float(record.value)
            for record in monitor.records
            if record.step == 0
        }
        _count(result, calls, observed, monitor.missing)


def _compare(result: Result, case: Case, expected: list[Phase], found: list[Phase]) -> None:
    lines = _unequal(expected, found)
    result.is_equal = not lines
    if not lines:
        return
    if _unequal(expected, run_phases(build(case), case)):
        result.excluded = "two runs of the plain model differ"
        return
    result.problems.append(f"not bit-equal: {listed(lines)}")


def listed(lines: list[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "; ".join(lines[:_SHOWN]) + more


def _unequal(expected: list[Phase], found: list[Phase]) -> list[str]:
    return [
        f"{name}: {path}: {how}"
        for name, a, b in zip(_PHASES, expected, found, strict=True)
        for path, how in differences(a.state, b.state)
    ]


def _count(
    result: Result,
    calls: Calls,
    observed: dict[Reading, float],
    reasons: dict[Reading, str],
) -> None:
    result.made = dict(Counter(quantity for _, quantity in calls.norms))
    result.observed = dict(Counter(q for module, q in calls.norms if (module, q) in observed))
    missing = [reading for reading in calls.norms if reading not in observed]
    if result.name in _TESTED_APART:
        return
    _add(result, missing, "not observed", lambda reading: reasons.get(reading, "nothing is said"))
    wrong = [r for r, norm in calls.norms.items() if r in observed and _is_off(norm, observed[r])]
    _add(result, wrong, "wrong", lambda r: f"{observed[r]:.6g} instead of {calls.norms[r]:.6g}")
    invented = [reading for reading in observed if reading not in calls.norms]
    if invented:
        names = listed([f"{q} of {m!r}" for m, q in invented])
        result.notes.append(f"{len(invented)} values that hooks do not see: {names}")


def _is_off(norm: float, value: float) -> bool:
    both_nan = math.isnan(norm) and math.isnan(value)
    return not both_nan and not math.isclose(norm, value, rel_tol=1e-5)


def _add(result: Result, readings: list[Reading], what: str, why: Callable[[Reading], str]) -> None:
    if readings:
        lines = [f"{q} of {m!r} ({why((m, q))})" for m, q in readings]
        result.problems.append(f"{len(readings)} {what}: {listed(lines)}")
