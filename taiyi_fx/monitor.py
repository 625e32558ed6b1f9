"""The monitor: decides what is due, turns statistics into records, once a step."""

from __future__ import annotations

import sys
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from taiyi_fx.agenda import Agenda, Agendas
from taiyi_fx.arriving import Arriving, Outcome, Pending
from taiyi_fx.collect import Collected, Collector
from taiyi_fx.config import Config, Subscription
from taiyi_fx.epochs import Epochs, EpochSummary, Statistics
from taiyi_fx.explain import Known, explain
from taiyi_fx.finish import Scale
from taiyi_fx.first_non_finite import first_sites
from taiyi_fx.passes.install import Installation
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.slots import SlotTable
from taiyi_fx.ranks import Join, form
from taiyi_fx.record import NonFiniteSite, Records, Series, Value

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class MonitorWarning(UserWarning):
    """Something asked for has no value, or could not be computed."""


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
        groups: tuple[ProcessGroup | Literal["auto"] | None, ProcessGroup | None] = (None, None),
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
        self._agendas = Agendas(config.subscriptions)
        modes: tuple[Mode, ...] = ("train", "eval") if installation.run.record_eval else ("train",)
        self._collector = Collector(self._modules, table, modes, strict=strict)
        self._steps: deque[Collected] = deque()
        self._logged: list[Pending] = []
        self._epoch = Epochs(epoch_statistics)
        self._paused = False
        self._groups = groups
        self._is_formed = False
        if groups[0] is not None:
            table.join()
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
            self._steps.append(Collected(Arriving(Outcome(), pending=self._take_logged())))
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
        if not self._is_formed:
            self._form()
        agenda = self._agendas.at(step)
        failures: dict[Series, str] = {}
        try:
            if agenda.work or self._logged:
                failures = self._collect(agenda, step, Scale.of(grad_scale))
        finally:  # what a quantity raised, if strict: the next step is a new one all the same
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
        if self._writer is not None:
            text += f" (records are kept by rank {self._writer})"
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
        self._collector.clear()
        self._table.clear()

    def get_output(self, mode: Mode = "train") -> dict[str, dict[str, dict[int, Value]]]:
        """Records as ``{module: {quantity: {step: value}}}``."""
        return self.records.select(mode=mode).nested()

    def _prepare(self, step: int) -> None:
        self._step = step
        self._announced: set[int] = {step}
        if not self._paused:
            self._installation.set_due(self._agendas.at(step).readings)

    def _collect(self, agenda: Agenda, step: int, scale: Scale) -> dict[Series, str]:
        collected = self._collector.collect(
            agenda, step, scale, self._take_logged(), is_announced=step in self._announced
        )
        self._steps.append(collected)
        for waiting in self._steps:
            self._tell_non_finite(waiting)
        return collected.failures

    def _form(self) -> None:
        """Agrees with other ranks, if there are any, on who is joined."""
        self._is_formed = True
        told = [(s.module, s.label, str(s.schedules), str(s.options)) for s in self.subscriptions]
        ranks = form(*self._groups, repr(told))
        self._collector.join = ranks and Join(ranks, self.subscriptions, self._table)

    @property
    def _writer(self) -> int | None:
        """The rank that records, if that is another than this."""
        join = self._collector.join
        return None if join is None or join.ranks.is_writer else join.ranks.members[0]

    def _take_logged(self) -> list[Pending]:
        logged, self._logged = self._logged, []
        return logged if self._writer is None else []

    def _tell_non_finite(self, step: Collected) -> None:
        """Tells of a step's first NaN or Inf as soon as its counts are there."""
        if not step.sites or not step.prompt.is_there:
            return
        found, step.sites = first_sites(step.sites, step.prompt.outcome()), {}
        if found and not self.non_finite:
            _warn("\n".join(map(str, found)))
        self.non_finite += found

    def _take_in(self, *, all_of_it: bool) -> None:
        """Records the steps that are complete, in their order; or waits for all of them."""
        while self._steps:
            step = self._steps[0]
            if not (all_of_it or step.is_there):
                return
            outcomes = [step.prompt.outcome()]
            try:
                if step.costly is not None:
                    outcomes.append(step.costly.outcome())
            except Exception:  # what a quantity raised, if strict: the step's other records stay
                self._steps.popleft()
                self._record(step, outcomes)
                raise
            self._steps.popleft()
            self._record(step, outcomes)

    def _record(self, step: Collected, outcomes: list[Outcome]) -> None:
        self._tell_non_finite(step)
        order = step.order
        for block in (block for outcome in outcomes for block in outcome.blocks):
            self._records.append_block(block)
            self._epoch.add_block(block)
            if self.missing:
                for series in block.series:
                    self.missing.pop(series, None)
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
