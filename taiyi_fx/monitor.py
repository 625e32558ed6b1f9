"""The monitor: decides what is due, turns statistics into records, once a step."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from taiyi_fx.config import Config, Subscription
from taiyi_fx.finish import NoValue, Readings, Scale
from taiyi_fx.host import Pending, to_host
from taiyi_fx.passes.install import Due, Installation
from taiyi_fx.passes.ir import CALL_PORTS, Mode
from taiyi_fx.passes.pipeline import add_note
from taiyi_fx.passes.slots import SlotTable
from taiyi_fx.record import Record, Records, Value
from taiyi_fx.schedule import Schedule, is_any_due

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


class Monitor:
    """Collects the quantities of an instrumented model while it trains.

    Attributes:
        records: Everything recorded so far.
        missing: Why a quantity had no value when last due, by module and quantity.
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
    ) -> None:
        self.records = Records()
        self.missing: dict[tuple[str, str], str] = {}
        self._config = config
        self._modules = dict(root.named_modules())
        self._table = table
        self._installation = installation
        self._strict = strict
        # Many quantities share few schedules: each is asked once a step.
        self._schedules = tuple(dict.fromkeys(s.schedules for s in config.subscriptions))
        self._agendas: dict[tuple[bool, ...], _Agenda] = {}
        self._windows: dict[tuple[Subscription, Mode, int], list[dict[str, Any]]] = {}
        self._previous: dict[tuple[Subscription, str], Any] = {}
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

    def track(self, step: int, grad_scale: float | torch.amp.GradScaler | None = None) -> None:
        """Records what is due at a step and prepares the next one.

        Call it once for each optimizer step, after backward: before ``optimizer.step()`` and
        before gradients are cleared. Several forwards and backwards before it are one step.

        Args:
            step: The step's number. What its forward read was fixed by the ``track`` before,
                for that step + 1, or by `at`.
            grad_scale: The factor that the loss was multiplied with. Gradients of inputs and
                outputs are divided by it. A number says that parameter gradients still carry
                it too; given the scaler itself, that is looked up (``unscale_`` takes it out).
        """
        if self._paused:
            return
        agenda = self._agenda(step)
        if agenda.work:
            self._collect(agenda, step, Scale.of(grad_scale))
        self._installation.end_step()
        self._prepare(step + 1)

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

    def clean_mem(self) -> None:
        """Forgets all records and everything kept for quantities that span steps."""
        self.records.clear()
        self._windows.clear()
        self._previous.clear()
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
        due = tuple(is_any_due(schedules, step) for schedules in self._schedules)
        if due not in self._agendas:
            self._agendas[due] = _agenda(
                self.subscriptions, dict(zip(self._schedules, due, strict=True))
            )
        return self._agendas[due]

    def _collect(self, agenda: _Agenda, step: int, scale: Scale) -> None:
        self._failed: dict[tuple[str, str], str] = {}
        with torch.no_grad():
            pending = list(self._evaluate(agenda, step, scale))
            values = self._to_host(pending)
        for result, value in zip(pending, values, strict=True):
            if value is None:
                self._failed[result.module, result.subscription.label] = "no gradient reached it"
            else:
                self._record(step, result, value)
        self._report()

    def _to_host(self, pending: list[Pending]) -> list[Value | None]:
        try:
            return to_host(pending)
        except Exception as error:  # Monitoring never ends a run: reported by name.
            if self._strict:
                raise
            for result in pending:
                text = f"{type(error).__name__} on the way to the host: {error}"
                self._failed[result.module, result.subscription.label] = text
            pending.clear()
            return []

    def _evaluate(self, agenda: _Agenda, step: int, scale: Scale) -> Iterator[Pending]:
        readings = Readings(self._modules, self._table, scale)
        for subscription, is_emitted in agenda.work:
            yield from self._of(subscription, readings, is_emitted, step)

    def _of(
        self, subscription: Subscription, readings: Readings, is_emitted: bool, step: int
    ) -> Iterator[Pending]:
        is_at_calls = subscription.is_at_calls
        for mode in self._modes if is_at_calls else self._modes[:1]:
            calls = self._table.calls(mode, subscription.module) if is_at_calls else 1
            for call in range(max(calls, mode == "train")):
                module = subscription.module + (f"@{call}" if call else "")
                try:
                    yield from self._at_call(subscription, readings, is_emitted, mode, call, module)
                except NoValue as why:
                    if (call == 0 or why.seen) and mode == "train" and is_emitted:
                        text = str(why) if step in self._announced else _NOT_ANNOUNCED
                        self._failed[module, subscription.label] = text
                except Exception as error:  # Monitoring never ends a run: reported by name.
                    if self._strict:
                        add_note(error, f"while computing {subscription.label} of {module!r}")
                        raise
                    self._failed[module, subscription.label] = f"{type(error).__name__}: {error}"

    def _at_call(
        self,
        subscription: Subscription,
        readings: Readings,
        is_emitted: bool,
        mode: Mode,
        call: int,
        module: str,
    ) -> Iterator[Pending]:
        quantity = subscription.quantity
        inputs, present = readings.of(subscription, mode, call)
        if quantity.window:
            inputs = self._windowed(subscription, inputs, mode, call, is_emitted)
        if not is_emitted:
            return
        for name, source in quantity.sources.items():
            if source.of_previous:
                key = subscription, f"{mode} {call} {name}"
                inputs[name], self._previous[key] = self._previous.get(key), inputs[name]
        computed = quantity.compute(**inputs, **subscription.arguments)
        for suffix, value in (
            computed if isinstance(computed, Mapping) else {"": computed}
        ).items():
            tensor = value if isinstance(value, Tensor) else torch.as_tensor(value)
            tensor = tensor.to_dense() if tensor.layout != torch.strided else tensor
            yield Pending(subscription, module, suffix, mode, tensor, present)

    def _windowed(
        self,
        subscription: Subscription,
        inputs: dict[str, Any],
        mode: Mode,
        call: int,
        is_emitted: bool,
    ) -> dict[str, Any]:
        """Adds this step to the window; at emission, the window's readings stacked."""
        window = self._windows.setdefault((subscription, mode, call), [])
        sources = subscription.quantity.sources
        window.append({k: v for k, v in inputs.items() if sources[k].port in CALL_PORTS})
        if not is_emitted:
            return inputs
        del self._windows[subscription, mode, call]  # whatever comes of it, the next is new
        stacked = {name: _stack([step[name] for step in window]) for name in window[0]}
        return {**inputs, **stacked}

    def _record(self, step: int, result: Pending, value: Value) -> None:
        label = result.subscription.label + (f".{result.suffix}" if result.suffix else "")
        self.records.append(Record(step, result.module, label, value, result.mode))
        self.missing.pop((result.module, result.subscription.label), None)

    def _report(self) -> None:
        """Warns of what has no value, each time its reason is a new one."""
        news: list[str] = []
        for (module, label), text in self._failed.items():
            if self.missing.get((module, label)) != text:
                news.append(f"{label} of {module or 'the model'!r}: {text}")
            self.missing[module, label] = text
        if news:
            shown = "\n".join(f"  - {line}" for line in news[:10])
            more = f"\n  and {len(news) - 10} more (see monitor.missing)" if len(news) > 10 else ""
            warnings.warn(f"no value for\n{shown}{more}", MonitorWarning, stacklevel=4)


def _agenda(
    subscriptions: tuple[Subscription, ...], due: Mapping[tuple[Schedule, ...], bool]
) -> _Agenda:
    work = tuple(
        (subscription, due[subscription.schedules])
        for subscription in subscriptions
        if due[subscription.schedules] or subscription.quantity.window
    )
    readings = frozenset(
        (subscription.module, reading)
        for subscription, _ in work
        for reading in subscription.readings.values()
        if reading.site.port in CALL_PORTS
    )
    return _Agenda(work, readings)


def _stack(values: list[Any]) -> Any:
    if isinstance(values[0], Tensor):
        return torch.stack(values)
    return type(values[0])(*map(torch.stack, zip(*values, strict=True)))
