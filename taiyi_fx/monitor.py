"""The monitor: decides what is due, turns statistics into records, once a step."""

from __future__ import annotations

import sys
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from taiyi_fx.aside import Aside, Job
from taiyi_fx.config import Config, Subscription
from taiyi_fx.epochs import Epochs, EpochSummary, Statistics
from taiyi_fx.evaluate import Evaluator, Outcome, Series, Work
from taiyi_fx.explain import Known, explain
from taiyi_fx.finish import NotThere, Readings, Scale
from taiyi_fx.first_non_finite import first_sites
from taiyi_fx.host import Pending
from taiyi_fx.passes.install import Due, Installation
from taiyi_fx.passes.ir import CALL_PORTS, Mode
from taiyi_fx.passes.slots import SlotTable
from taiyi_fx.record import NonFiniteSite, Records, Value
from taiyi_fx.schedule import Schedule, is_any_due, is_over

_NOT_ANNOUNCED = (
    "the forward had been prepared for another step than the one tracked; call track at every "
    "optimizer step, or run the forward inside `with monitor.at(step):`"
)


class MonitorWarning(UserWarning):
    """Something asked for has no value, or could not be computed."""


@dataclass(frozen=True)
class _Agenda:
    """What one combination of due schedules asks for.

    Attributes:
        work: What `track` has to look at, in the model's order, and whether it emits a value or
            only adds to a window.
        readings: What the forwards before it have to read.
    """

    work: tuple[tuple[Subscription, bool], ...]
    readings: Due


@dataclass(frozen=True)
class _Step:
    """A tracked step whose records are not all there yet.

    Attributes:
        prompt: What was computed in `track`.
        costly: What is being computed aside.
        order: The place of each series among the step's records.
    """

    prompt: Outcome
    costly: Job | None
    order: dict[Series, int]


class Monitor:
    """Collects the quantities of an instrumented model while it trains.

    Attributes:
        missing: Why a quantity had no value when last due, by module and quantity.
        epochs: Summaries of all scalar series, from each `tick_epoch`.
        non_finite: The first sites of steps that brought a NaN or an Inf, where
            ``NonFinite`` or its siblings are asked for: of each such step the first value in
            order of execution, then the first gradient in order of backward.
    """

    def __init__(
        self,
        config: Config,
        root: nn.Module,
        table: SlotTable,
        installation: Installation,
        *,
        start_step: int = 0,
        strict: bool = False,
        epoch_statistics: Statistics = "exact",
    ) -> None:
        self.missing: dict[Series, str] = {}
        self.epochs: list[EpochSummary] = []
        self.non_finite: list[NonFiniteSite] = []
        self._records = Records()
        self._config = config
        self._root = root
        self._modules = dict(root.named_modules())
        self._table = table
        self._installation = installation
        self._strict = strict
        # Many quantities share few schedules: each is asked once a step.
        self._schedules = tuple(dict.fromkeys(s.schedules for s in config.subscriptions))
        self._agendas: dict[tuple[bool | None, ...], _Agenda] = {}
        self._prompt, self._costly = Evaluator(strict=strict), Evaluator(strict=strict)
        self._aside = Aside(self._costly.run)
        self._steps: deque[_Step] = deque()
        self._logged: list[Pending] = []
        self._epoch = Epochs(epoch_statistics)
        self._modes: tuple[Mode, ...] = (
            ("train", "eval") if installation.run.record_eval else ("train",)
        )
        self._paused = False
        self._prepare(start_step)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """All quantities of all modules, with their schedules."""
        return self._config.subscriptions

    @property
    def next_step(self) -> int:
        """The step that the next forward is read for."""
        return self._step

    @property
    def records(self) -> Records:
        """Everything recorded so far; waits for what is still being computed."""
        if self._logged:
            logged, self._logged = self._logged, []
            self._steps.append(_Step(self._prompt.run([], logged), None, {}))
        self._take_in(all_of_it=True)
        return self._records

    def track(self, step: int, grad_scale: float | torch.amp.GradScaler | None = None) -> None:
        """Records what is due at a step and prepares the next one.

        Call it once for each optimizer step, after backward: before ``optimizer.step()`` and
        before gradients are cleared. Several forwards and backwards before it are one step.
        Eigenvalues and singular values are computed beside the training, by one thread; their
        records belong to this step, and are there when `records` is looked at.

        Args:
            step: The step's number. What its forward read was fixed by the ``track`` before,
                for that step + 1, or by `at`.
            grad_scale: The factor that the loss was multiplied with. Gradients of inputs and
                outputs are divided by it. A number says that parameter gradients still carry
                it too; given the scaler itself, that is looked up (``unscale_`` takes it out).
                With several optimizers, call ``track`` before the first ``unscale_`` or after all.
        """
        if self._paused:
            return
        agenda = self._agenda(step)
        failures: dict[Series, str] = {}
        if agenda.work or self._logged:
            self._steps.append(self._collect(agenda, step, Scale.of(grad_scale), failures))
        self._installation.end_step()
        self._prepare(step + 1)
        self._report(failures)
        self._take_in(all_of_it=self._strict)

    def log(
        self,
        name: str,
        value: float | Tensor,
        *,
        step: int | None = None,
        mode: Mode | None = None,
    ) -> None:
        """Records a number of your own, a loss or a metric, as a series of the model itself.

        A tensor stays on its device until the next `track`, which takes it along.

        Args:
            name: The series' name; its module is ``""``.
            value: A number, or a tensor of one element.
            step: The step that it belongs to; by default that of the next `track`, and for an
                evaluation that of the last.
            mode: Whether it belongs to training or evaluation, which are kept apart; by default
                as the model stands.

        Raises:
            TypeError: The value is no number.
            ValueError: The value has more than one element, or the name is one of the quantities
                asked of the model itself.
        """
        if any(s.label == name and s.is_of_model for s in self.subscriptions):
            raise ValueError(f"{name!r} is a quantity of the model itself: log under another name")
        mode = mode or ("train" if self._root.training else "eval")
        if step is None:
            step = self._step if mode == "train" else max(self._step - 1, 0)
        self._logged.append(Pending(step, "", name, "", mode, _scalar(name, value)))

    def tick_epoch(self, epoch: int | None = None) -> list[EpochSummary]:
        """Closes an epoch; returns what each scalar series did in it, as is added to `epochs`.

        Args:
            epoch: Its number, by default one more than the last.
        """
        _ = self.records  # all that belongs to the epoch is there
        closed = self._epoch.close(epoch)
        self.epochs += closed
        return closed

    def explain(self, module: str, quantity: str) -> str:
        """Says why a series has no value, when it is next due, and when it last had one.

        Args:
            module: The module's name, ``"fc@1"`` for its second call.
            quantity: The quantity's name in records.

        Raises:
            LookupError: There is no such module or quantity.
        """
        records = self.records  # first: what is still being computed may be missing
        known = Known(self._modules, self.subscriptions, records, self.missing, self._step)
        text = explain(module, quantity, known)
        return f"{text} (the monitor is paused)" if self._paused else text

    @contextmanager
    def at(self, step: int) -> Iterator[None]:
        """Forwards in the body are read for this step instead of the one after the last."""
        before = self._step
        if step != before:
            self._installation.end_step()
        self._prepare(step)
        try:
            yield
        finally:
            if self._step == step:
                self._prepare(before)
                self._announced.add(step)

    def pause(self) -> None:
        """Reads and records nothing until `resume`; the model runs its own forward."""
        self._paused = True
        self._installation.set_due(frozenset())
        self._table.clear()

    def resume(self) -> None:
        """Goes on after `pause`."""
        self._paused = False
        self._table.clear()
        self._prepare(self._step)

    def close(self) -> None:
        """Ends monitoring: the model runs its own forward from here on. Records stay."""
        self.pause()
        _ = self.records

    def clean_mem(self) -> None:
        """Forgets all records and everything kept for quantities that span steps."""
        self.records.clear()
        self.epochs.clear()
        self.non_finite.clear()
        self._epoch.clear()
        self._prompt.clear()
        self._costly.clear()
        self._table.clear()

    def get_output(self, mode: Mode = "train") -> dict[str, dict[str, dict[int, Value]]]:
        """Records as ``{module: {quantity: {step: value}}}``."""
        return self.records.select(mode=mode).nested()

    def _prepare(self, step: int) -> None:
        self._step = step
        self._announced: set[int] = {step}
        if not self._paused:
            self._installation.set_due(self._agenda(step).readings)

    def _agenda(self, step: int) -> _Agenda:
        due = tuple(_state(schedules, step) for schedules in self._schedules)
        if due not in self._agendas:
            self._agendas[due] = _agenda(
                self.subscriptions, dict(zip(self._schedules, due, strict=True))
            )
        return self._agendas[due]

    def _collect(
        self, agenda: _Agenda, step: int, scale: Scale, failures: dict[Series, str]
    ) -> _Step:
        readings = Readings(self._modules, self._table, scale)
        with torch.no_grad():
            readings.measure_modules(subscription for subscription, _ in agenda.work)
            works = list(self._works(agenda, step, readings, failures))
            costly = [work for work in works if work.subscription.is_costly]
            prompt = [work for work in works if not work.subscription.is_costly]
            job = self._put(costly, failures)
        logged, self._logged = self._logged, []
        outcome = self._prompt.run(prompt, logged)
        failures.update(outcome.failures)
        outcome.failures.clear()
        self._tell_non_finite(first_sites(prompt, outcome.records, self._table))
        order = {(w.module, w.subscription.label): i for i, w in enumerate(works)}
        return _Step(outcome, job, order)

    def _put(self, works: list[Work], failures: dict[Series, str]) -> Job | None:
        try:
            return self._aside.put(works) if works else None
        except Exception as error:  # Monitoring never ends a run: reported by name.
            if self._strict:
                raise
            text = f"{type(error).__name__}: {error}"
            failures.update({(w.module, w.subscription.label): text for w in works})
            return None

    def _works(
        self, agenda: _Agenda, step: int, readings: Readings, failures: dict[Series, str]
    ) -> Iterator[Work]:
        for subscription, is_emitted in agenda.work:
            for mode, call in self._calls(subscription):
                try:
                    inputs = readings.of(subscription, mode, call)
                    yield Work(subscription, step, mode, call, inputs, is_emitted)
                except NotThere as why:
                    if is_emitted and subscription.quantity.looks_back:
                        yield Work(subscription, step, mode, call, None, is_emitted)
                    if (call == 0 or why.seen) and mode == "train" and is_emitted:
                        text = str(why) if step in self._announced else _NOT_ANNOUNCED
                        failures[_series(subscription, call)] = text
                except Exception as error:  # Monitoring never ends a run: reported by name.
                    if self._strict:
                        raise
                    text = f"{type(error).__name__}: {error}"
                    failures[_series(subscription, call)] = text

    def _calls(self, subscription: Subscription) -> Iterator[tuple[Mode, int]]:
        if not subscription.is_at_calls:
            yield "train", 0
            return
        for mode in self._modes:
            calls = self._table.calls(mode, subscription.module)
            for call in range(max(calls, mode == "train")):
                yield mode, call

    def _tell_non_finite(self, sites: list[NonFiniteSite]) -> None:
        if sites and not self.non_finite:
            _warn("\n".join(map(str, sites)))
        self.non_finite += sites

    def _take_in(self, *, all_of_it: bool) -> None:
        """Records the steps that are complete, in their order; or waits for all of them."""
        while self._steps:
            step = self._steps[0]
            if step.costly is not None and not all_of_it and not step.costly.is_done:
                return
            outcomes = [step.prompt]
            try:
                if step.costly is not None:
                    outcomes.append(step.costly.outcome())
            except Exception:  # what a quantity raised, if strict: the step's other records stay
                self._steps.popleft()
                self._record(outcomes, step.order)
                raise
            self._steps.popleft()
            self._record(outcomes, step.order)

    def _record(self, outcomes: list[Outcome], order: dict[Series, int]) -> None:
        records = [pair for outcome in outcomes for pair in outcome.records]
        for series, record in sorted(records, key=lambda pair: order.get(pair[0], len(order))):
            self._records.append(record)
            self._epoch.add(record)
            self.missing.pop(series, None)
        for outcome in outcomes:
            self.missing.update(outcome.reasons)
            self._report(outcome.failures)

    def _report(self, failures: Mapping[Series, str]) -> None:
        """Warns of what has no value, each time its reason is a new one."""
        news: list[str] = []
        for (module, label), text in failures.items():
            if self.missing.get((module, label)) != text:
                news.append(f"{label} of {module or 'the model'!r}: {text}")
            self.missing[module, label] = text
        if news:
            shown = "\n".join(f"  - {line}" for line in news[:10])
            more = f"\n  and {len(news) - 10} more (see monitor.missing)" if len(news) > 10 else ""
            _warn(f"no value for\n{shown}{more}")


def _warn(text: str) -> None:
    """Warns at the line of the user's that called the monitor."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, MonitorWarning, stacklevel=level)


def _series(subscription: Subscription, call: int) -> Series:
    return subscription.module + (f"@{call}" if call else ""), subscription.label


def _scalar(name: str, value: float | Tensor) -> Tensor:
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(
                f"{name!r} has the shape {tuple(value.shape)}, but a series takes one number a "
                "step: reduce it first, as by .mean()"
            )
        return value.detach().reshape(()).clone()
    if isinstance(value, (bool, int, float)) or hasattr(value, "__float__"):
        return torch.tensor(float(value), dtype=torch.float64)
    raise TypeError(f"{name!r}: a number belongs here, not {value!r}")


def _state(schedules: tuple[Schedule, ...], step: int) -> bool | None:
    """Whether something is due; None where it never will be again."""
    return None if is_over(schedules, step) else is_any_due(schedules, step)


def _agenda(
    subscriptions: tuple[Subscription, ...], due: Mapping[tuple[Schedule, ...], bool | None]
) -> _Agenda:
    states = ((subscription, due[subscription.schedules]) for subscription in subscriptions)
    work = tuple(
        (subscription, is_due)
        for subscription, is_due in states
        if is_due or (is_due is not None and subscription.quantity.window)
    )
    readings = frozenset(
        (subscription.module, reading)
        for subscription, _ in work
        for reading in subscription.readings.values()
        if reading.site.port in CALL_PORTS
    )
    return _Agenda(work, readings)
