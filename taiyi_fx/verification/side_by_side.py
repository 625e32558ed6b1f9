"""A plain model and an instrumented one, side by side."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from taiyi_fx.config.check import rescheduled
from taiyi_fx.config.merged import Cfg
from taiyi_fx.config.subscriptions import Config, Subscription
from taiyi_fx.instrument import InstrumentedModule, instrument
from taiyi_fx.instrumented import monitor_of
from taiyi_fx.monitor import Monitor
from taiyi_fx.passes.note import add_note
from taiyi_fx.quantities.declare import Request
from taiyi_fx.records.record import Record
from taiyi_fx.schedule import every
from taiyi_fx.snapshot.bitwise import differences, kept
from taiyi_fx.snapshot.state import State
from taiyi_fx.verification.batch import Batch
from taiyi_fx.verification.cost import ratios, timed
from taiyi_fx.verification.differing import Difference, Phase, found_in
from taiyi_fx.verification.phases import Subject, Task, phases, random_states
from taiyi_fx.verification.readings import Readings, Shown
from taiyi_fx.verification.reference import is_compared
from taiyi_fx.verification.result import Verification
from taiyi_fx.warning import MonitorWarning


def compare(plain: Subject, cfg: Cfg, config: Config, task: Task) -> Verification:
    """Runs the plain model twice, then with hooks, and the instrumented one with all due, and none.

    Args:
        plain: The model; its state is not restored in the end.
        cfg: The configuration.
        config: The same, checked.
        task: The steps that both run.

    Raises:
        Exception: Any that the plain model or `taiyi_fx.instrument` raises.
    """
    # The plain model runs twice, as it may differ from itself: only what comes before its first own
    # difference can be judged. Hooks get a third run, so that neither
    # of the compared runs has any. The instrumented model is due at even step numbers:
    # the same object then runs with all due (even) and with nothing due (odd).
    try:
        expected = list(phases(plain, task))
    except Exception as error:
        add_note(error, "while the plain model ran: nothing was instrumented yet")
        raise
    unstable = list(found_in(expected, phases(plain, task), task.names))
    shown = Shown(plain.model, config.subscriptions)
    list(phases(Subject(plain.model, plain.state, shown.around_step), task))
    warned: list[str] = []
    with _collecting(warned), _instrumented(plain, cfg, task) as (instrumented, monitor, at_once):
        state = State(instrumented, plain.state)
        due, idle = (
            Subject(instrumented, state, functools.partial(_tracked, monitor, offset))
            for offset in (0, 1)
        )
        found = [*at_once, *found_in(expected, phases(due, task), task.names)]
        readings = Readings(_by_call(monitor.records), dict(monitor.missing), shown)
        found += found_in(expected, phases(idle, task), task.names, " where nothing is due")
        judged = [d for d in found if not unstable or d.position < unstable[0].position]
        has_raised = any(d.has_raised for d in found)
        costs = None if has_raised else _costs(plain, Subject(instrumented, state), monitor, task)
    return _result(config, task, expected, (judged, unstable), readings, costs, warned)


@contextmanager
def _collecting(warned: list[str]) -> Iterator[None]:
    """Collects the monitor's warnings; passes others on."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", MonitorWarning)
            yield
    finally:
        for found in caught:
            if issubclass(found.category, MonitorWarning):
                warned.append(str(found.message))
            else:
                warnings.warn_explicit(found.message, found.category, found.filename, found.lineno)


@contextmanager
def _instrumented(
    plain: Subject, cfg: Cfg, task: Task
) -> Iterator[tuple[InstrumentedModule, Monitor, list[Difference]]]:
    """The instrumented model, due at even steps, its monitor, and what instrumenting changed."""
    plain.begin(task)
    before = _at_rest(plain)
    instrumented = instrument(
        plain.model, rescheduled(plain.model, cfg, every(2)), process_group=None
    )
    monitor = monitor_of(instrumented)
    try:
        apart = differences(before, _at_rest(plain))
        found = [Difference(path, (-1, 0), "after instrument", how) for path, how in apart]
        plain.state.restore(but_forwards=True)
        yield instrumented, monitor, found
    finally:
        monitor.pause()  # what was read and not tracked is not worth a warning
        monitor.close()


def _at_rest(plain: Subject) -> Phase:
    tensors = (*plain.model.named_parameters(), *plain.model.named_buffers())
    return kept((repr(n), t) for n, t in tensors) | plain.state.changes() | random_states()


@contextmanager
def _tracked(monitor: Monitor, offset: int, step: int) -> Iterator[None]:
    """Tracks a training step as an even step, at which all is due, or as an odd one."""
    with monitor.at(2 * step + offset):
        yield
        monitor.track(2 * step + offset)


def _by_call(records: Iterable[Record]) -> dict[tuple[int, str], list[Record]]:
    found: defaultdict[tuple[int, str], list[Record]] = defaultdict(list)
    for record in records:
        found[record.step // 2, record.module].append(record)
    return dict(found)


def _costs(plain: Subject, probed: Subject, monitor: Monitor, task: Task) -> list[float]:
    """The cost of a step where all is due and where nothing is, as multiples of a plain one."""
    numbers = itertools.count(2 * task.steps)
    for subject in (plain, probed):
        subject.begin(task)
    monitor.start_at(2 * task.steps)

    def of_plain() -> float:
        batch = task.batch.fresh()
        return timed(lambda: plain.train(task, batch, 0))

    def tracked(batch: Batch) -> None:
        probed.train(task, batch, 0)
        monitor.track(next(numbers))
        _ = (
            monitor.records
        )  # waits for what is computed in the background, lest it falls on the next step

    def of_probed() -> float:
        batch = task.batch.fresh()
        return timed(lambda: tracked(batch))

    # Even steps and odd ones in turn, as a training's steps follow each other.
    steps = (of_plain, of_probed, of_probed)
    for step in steps:
        step()
    return ratios(steps)


def _result(
    config: Config,
    task: Task,
    expected: Sequence[Phase],
    apart: tuple[list[Difference], list[Difference]],
    readings: Readings,
    costs: list[float] | None,
    warned: list[str],
) -> Verification:
    names = task.names
    errors = {} if apart[1] else readings.errors()
    worst = max(errors, key=lambda key: errors[key], default=None)
    differing, unstable = (tuple(map(str, found)) for found in apart)
    return Verification(
        differences=differing,
        unstable=unstable,
        compared=_kinds(expected),
        steps=task.steps,
        calls=readings.counts(),
        unseen=tuple(f"{what} in {names[step]}" for step, what in readings.unseen()),
        readings=len(errors),
        worst_error=errors[worst] if worst else None,
        worst_reading=f"{worst[1]} in {names[worst[0]]}" if worst else "",
        not_compared=_not_compared(config),
        warnings=tuple(dict.fromkeys(warned)),
        cost_due=costs[0] if costs else None,
        cost_idle=costs[1] if costs else None,
    )


_KINDS = {
    "output": "output",
    "gradient of ": "gradient",
    "buffer ": "buffer",
    "parameter ": "parameter",
    "attribute ": "attribute",
    "random state ": "random state",
}
"""The kinds of compared items, by the beginning of their paths."""


def _kinds(expected: Sequence[Phase]) -> dict[str, int]:
    """The number of compared items of each kind."""
    paths = {path for phase in expected for path in phase}
    paths = {path for path in paths if not path.startswith("attribute 'training' of ")}
    return {kind: sum(path.startswith(begin) for path in paths) for begin, kind in _KINDS.items()}


def _not_compared(config: Config) -> tuple[str, ...]:
    asked = [request for of in config.of_functions for _, request in of.requests]
    of_functions = [f"{r.quantity.name} of functions" for r in asked if isinstance(r, Request)]
    others = [_named(s) for s in config.subscriptions if not is_compared(s)]
    return tuple(dict.fromkeys([*others, *of_functions]))


def _named(subscription: Subscription) -> str:
    options = [f"{k}={v!r}" for k, v in subscription.options if k != "param"]
    name = subscription.quantity.name
    return f"{name}({', '.join(options)})" if options else name
