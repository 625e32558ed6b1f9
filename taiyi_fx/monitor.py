"""The monitor: decides what is due, turns statistics into records, once a step."""

from __future__ import annotations

import atexit
import html
import operator
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, SupportsIndex, cast

import torch
from torch import Tensor, nn
from torch import distributed as dist

from taiyi_fx.config.subscriptions import Config, Subscription
from taiyi_fx.findings import Evidence, Finding, find, groups_of, hooks_of, squashed_by
from taiyi_fx.findings.finding import Severity
from taiyi_fx.findings.listed import Findings
from taiyi_fx.outline import Outline
from taiyi_fx.outline.between import functions_before
from taiyi_fx.outline.build import Outliner
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.probes.dtensor import tensor_parallel
from taiyi_fx.passes.runtime.build import Instrumented
from taiyi_fx.passes.runtime.session import MANY_UNTRACKED
from taiyi_fx.records.epochs import Epochs, EpochSummary, Statistics
from taiyi_fx.records.record import Records, Series, Value
from taiyi_fx.schedule import NEVER, check_step, whole
from taiyi_fx.step.collect import Collector, TrackedStep
from taiyi_fx.step.due import DueTable, DueWork
from taiyi_fx.step.explain import Known, explain
from taiyi_fx.step.queue import StepQueue
from taiyi_fx.step.ranks import UNEVEN, Cadence, Join, form
from taiyi_fx.step.statistics import Scale
from taiyi_fx.step.transfer import Column, Outcome, Transfer
from taiyi_fx.step.whole_model import check_optimizers
from taiyi_fx.warning import warn, warn_of
from taiyi_fx.watch import NOTHING, OnFinding, Watch, WatchOptions
from taiyi_fx.writers.protocol import RunInfo, Writer
from taiyi_fx.writers.run_info import describer, run_info
from taiyi_fx.writers.writer_group import WriterGroup

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


_NOT_ANNOUNCED = (
    "the forward had been prepared for another step than the one tracked; call track at every "
    "optimizer step, or run the forward inside `with monitor.at(step):`"
)


class Monitor:
    """Collects the quantities of an instrumented model while it trains.

    Attributes:
        missing: The reason for each value that was missing when last due, by module and quantity.
        epochs: Summaries of all scalar series, from each `tick_epoch`.
        non_finite: The first sites of steps that brought a NaN or an Inf, where
            ``NonFinite`` or its siblings are configured: of each such step the first value in
            order of execution, then the first gradient in order of backward. The first is warned
            of, once a run. Gradients that overflow under a scaler are included, although they are
            no fault: ``is_overflow`` says so.
    """

    def __init__(
        self,
        config: Config,
        compiled: Instrumented,
        *,
        start_step: int = 0,
        strict: bool = False,
        epoch_statistics: Statistics = "exact",
        groups: tuple[ProcessGroup | Literal["auto"] | None, ProcessGroup | None] = (None, None),
        writers: Sequence[Writer] = (),
        watched: WatchOptions = NOTHING,
    ) -> None:
        self.epochs: list[EpochSummary] = []
        self._config = config
        self._outline = Outliner(compiled, config.subscriptions)
        self._root = compiled.root
        self._modules = dict(compiled.root.named_modules())
        self._table = compiled.table
        self._installation = compiled.installation
        self._session = compiled.session
        self._strict = strict
        self._due = DueTable(config.subscriptions, self._modules)
        self._cadence = Cadence()
        modes: tuple[Mode, ...] = ("train",)
        if self._installation.run.record_eval:
            modes = ("train", "eval")
        self._collector = Collector(self._modules, self._table, modes, strict=strict)
        self._writers = WriterGroup(strict=strict)
        self._queue = StepQueue(Epochs(epoch_statistics), self._writers)
        self.missing = self._queue.missing
        self._squashed: dict[str, str] = {}
        self.non_finite = self._queue.non_finite
        self._watch = Watch(_facts(config, self._modules), watched, strict=strict)
        self._paused = False
        self._last: int | None = None
        self._warned: set[str] = set()
        self._groups = groups
        self._is_formed = False
        self._start_step = start_step
        self._writers.add(writers)
        if groups[0] is not None:
            self._table.join()
        self._session.on_many_untracked = _warn_of_untracked
        weakref.finalize(self, self._writers.close).atexit = False  # as _close_all does it better
        _MONITORS.add(self)
        if writers:
            self._open_alone()
        self._prepare(start_step)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """All quantities of all modules, with their schedules."""
        return self._config.subscriptions

    @property
    def outline(self) -> Outline:
        """The model as boxes within boxes, with its readings.

        The data flow between forwards that stayed Python, and all shapes, are in it once a forward
        has been read.
        """
        return self._outline()

    @property
    def next_step(self) -> int:
        """The step that the next forward is read for."""
        return self._step

    @property
    def is_writing(self) -> bool:
        """True if writers are open, which they are from the first step on."""
        return self._writers.are_open

    @property
    def info(self) -> RunInfo:
        """The facts about the run, as writers get them."""
        rank = dist.get_rank() if dist.is_initialized() else 0
        config, start = self.subscriptions, self._start_step
        return run_info(self._root, self._modules, config, start, rank, self._outline)

    @property
    def records(self) -> Records:
        """Everything recorded so far; waits for what is still being computed."""
        logged = [*self._queue.logged]
        if logged:
            transfer = Transfer(Outcome(), self._recorded_here(logged))
            self._queue.put(TrackedStep(self._step, transfer), len(logged))
        self._queue.take(all_of_it=True)
        return self._queue.records

    @property
    def findings(self) -> list[Finding]:
        """The faults that show in the numbers recorded so far, most urgent first.

        A finding names the cause; what follows from it is among its `consequences`.
        """
        return self._find(Evidence.of_records(self.records, _facts(self._config, self._modules)))

    @property
    def on_finding(self) -> OnFinding:
        """The actions at a new finding: see `instrument`. May be set.

        Raises:
            TypeError: What is set is no such thing.
            ValueError: A text is no action, and no address of http or https.
        """
        return self._watch.on_finding

    @on_finding.setter
    def on_finding(self, asked: OnFinding) -> None:
        self._watch.on_finding = asked

    @property
    def finding_severity(self) -> Severity:
        """The lowest severity of findings that are warned of and acted upon. May be set.

        Raises:
            ValueError: What is set is no severity.
        """
        return self._watch.severity

    @finding_severity.setter
    def finding_severity(self, severity: Severity) -> None:
        self._watch.severity = severity

    @property
    def should_stop(self) -> bool:
        """True once a finding is to stop the training, as ``on_finding="stop"`` asks.

        Look at it after `track`. Where several ranks are joined it is true on all of them, at the
        first step after it that they exchange readings at.
        """
        return self._cadence.is_end

    @property
    def can_skip(self) -> bool:
        """True if ``on_finding`` has ``"skip"``, so that `should_skip` may be true."""
        return self._watch.skips and self._collector.join is None

    @property
    def should_skip(self) -> bool:
        """True if the optimizer is to leave out the tracked step, as ``on_finding="skip"`` asks.

        It is for steps that have a number which is not finite, and for those at which a finding is
        new. Gradients that overflow under a scaler are left to it.
        """
        return self.can_skip and self._watch.should_skip

    def track(self, step: int, grad_scale: float | torch.amp.GradScaler | None = None) -> None:
        """Records what is due at a step and prepares the next one.

        Call it once for each optimizer step, after backward: before ``optimizer.step()`` and
        before gradients are cleared. Several forwards and backwards before it are one step.
        Eigenvalues and singular values are computed in the background, by one thread; their
        records belong to this step, and `records` waits for them.

        Args:
            step: The step's number. Its readings were chosen by the ``track`` before, for that
                step + 1, or by `at`.
            grad_scale: The factor that the loss was multiplied with. Gradients of inputs and
                outputs are divided by it. With a number, parameter gradients are divided too;
                with the scaler itself, only if they still carry it (``unscale_`` takes it out),
                and gradients alone that are not finite are not warned of: the scaler skips such
                a step.
                With several optimizers, call ``track`` before the first ``unscale_`` or after all.
        """
        if self._paused:
            return
        step = whole("step", step)
        if not self._is_formed:
            self._form()
        self._watch.should_skip = False
        scale = Scale.of(grad_scale)
        due = self._due.at(step)
        self._warn_of_order(step)
        try:
            self._track(due, step, scale)
        except Exception as error:  # whatever it was, training goes on, and so does monitoring
            if self._strict:
                raise
            self._queue.drop(step)
            text = f"step {step} is dropped: {type(error).__name__}: {error}"
            self._queue.report(
                step, {(s.module, s.label): text for s, is_emitted in due.asked if is_emitted}
            )
        else:
            self._react(step, scale)
        self._warn_of_threads()

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
            mode: ``"train"`` or ``"eval"``, which are kept apart; by default the mode that the
                model is in.

        Raises:
            TypeError: The value is not a number, the step is not a whole number, or the name is not
                a string.
            ValueError: The value has more than one element or more than 64 bits, the name is one
                of the model's own quantities, or there is no such mode.
        """
        if self._paused:
            return
        if not isinstance(name, str):
            raise TypeError(f"the name of a series is a text, not {name!r}")
        if mode not in (None, "train", "eval"):
            raise ValueError(f"mode is 'train' or 'eval', not {mode!r}")
        if any(s.label == name and s.is_of_model for s in self.subscriptions):
            raise ValueError(f"{name!r} is a quantity of the model itself: log under another name")
        mode = mode or ("train" if self._root.training else "eval")
        if step is None:
            step = self._step if mode == "train" else max(self._step - 1, 0)
        step = whole("step", step)
        if "loss" in name.lower() and name not in self._squashed:
            self._squashed[name] = squashed_by(value)
        series = (("", name),)
        column = Column(step, mode, series, series, _scalar(name, value).reshape(1))
        self._queue.log(column)
        self._collector.whole.log(column)

    def watch_optimizer(self, *optimizers: torch.optim.Optimizer) -> None:
        """Takes the optimizers that train the model, for its learning rates and parameter groups.

        They replace those that were known before. Groups are counted over all of them.

        Raises:
            TypeError: One has no ``param_groups``.
        """
        self._collector.whole.optimizers = check_optimizers(optimizers)

    def tick_epoch(self, epoch: int | None = None) -> list[EpochSummary]:
        """Closes an epoch; returns the summary of each scalar series, and adds it to `epochs`.

        Args:
            epoch: Its number, by default one more than the last.
        """
        epoch = None if epoch is None else whole("epoch", epoch)
        _ = self.records  # waits for all that belongs to the epoch
        closed = self._queue.close_epoch(epoch)
        self.epochs += closed
        return closed

    def add_writer(self, writer: Writer) -> None:
        """Sends all records from here on to a writer as well.

        Raises:
            TypeError: It is not a writer.
            Exception: Any that the writer raises when it is opened.
        """
        self._writers.add([writer])
        self._open_alone()

    def flush(self) -> None:
        """Flushes all writers; waits for values that are still being computed."""
        _ = self.records
        self._queue.write_pending(at_once=True)

    def explain(self, module: str, quantity: str) -> str:
        """A text: why a series has no value, when it last had one, and when it is next due.

        Args:
            module: The module's name, ``"fc@1"`` for its second call.
            quantity: The quantity's name in records.

        Raises:
            LookupError: There is no such module or quantity.
        """
        records = self.records  # first: what is still being computed may be missing
        series, raised = self.subscriptions, self._due.raised
        known = Known(self._modules, series, records, self.missing, self._step, raised)
        text = explain(module, quantity, known)
        if self._writer is not None:
            text += f" (records are kept by rank {self._writer})"
        return f"{text} (the monitor is paused)" if self._paused else text

    @contextmanager
    def at(self, step: int) -> Iterator[None]:
        """Reads forwards in the body for this step instead of the one after the last."""
        step, before = whole("step", step), self._step
        if step != before:
            self._installation.end_step()
        self._prepare(step)
        try:
            yield
        finally:
            if self._step == step:
                self._prepare(before)
                self._announced.add(step)

    def raise_cadence(self, *, steps: int = 20) -> None:
        """Makes all `adaptive` schedules due at each of the steps after the next `track`.

        Where several ranks are joined, the wish goes along with what they exchange next, and all
        of them raise their cadence then, as each has to read the same. With nothing that they
        exchange, nothing changes.

        Args:
            steps: The number of such steps. While the cadence is raised, they are counted anew.

        Raises:
            TypeError: It is not a whole number.
            ValueError: It is below 1.
        """
        steps = whole("steps", steps)
        if steps < 1:
            raise ValueError(f"steps is a whole number of at least 1, not {steps}")
        self._cadence.wish(steps)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Reads all calls of the model in the body as one forward.

        For a training that calls parts of the model, or other methods than its forward, as that of
        a GAN or of a variational autoencoder does. Calls of the instrumented model do not need it.
        """
        with self._session.reading():
            yield

    def start_at(self, step: int) -> None:
        """Makes this the next step, as after a checkpoint was loaded.

        Readings since the last `track` are dropped, and at another step than the next one also
        the values that quantities keep of earlier steps. Writers added later begin here.

        Raises:
            ValueError: It is not a step.
        """
        check_step("step", step)
        if step != self._step:
            self._collector.clear()
        self._start_step = step
        self._last = None
        self._due.raised = NEVER
        self._cadence.clear()
        if step < self._step:
            self._watch.clear()
        self._installation.end_step()
        self._prepare(step)

    def pause(self) -> None:
        """Reads and records nothing until `resume`; the model runs its own forward."""
        self._paused = True
        self._session.on_many_untracked = None
        self._installation.set_due(frozenset())
        self._table.clear()

    def resume(self) -> None:
        """Reads and records again after `pause`."""
        self._paused = False
        self._table.clear()
        self._prepare(self._step)

    def close(self) -> None:
        """Ends monitoring and closes the writers: the model runs its own forward. Records stay."""
        is_told = self._session.untracked >= MANY_UNTRACKED
        if not (self._is_formed or is_told) and self._table.states():
            warn("forwards were read, but track was never called: nothing was recorded of them")
        self.pause()
        try:
            _ = self.records
            self._queue.write_pending()
            self._watch.close()
        finally:
            self._installation.close()
            self._writers.close()
            warn_of(self._writers.pop_errors())
        # Not after an interrupt: the records that it delayed are written when the process ends.
        _MONITORS.discard(self)

    def clean_mem(self) -> None:
        """Drops all records, and all values kept for quantities that span steps."""
        _ = self.records  # values that are still being computed are dropped, too
        self.epochs.clear()
        self._queue.clear()
        self._watch.clear()
        self._collector.clear()
        self._table.clear()

    def __repr__(self) -> str:
        kind, quantities = type(self._root).__name__, {s.label for s in self.subscriptions}
        state = ", paused" if self._paused else ""
        return (
            f"<Monitor of {kind}: {len(quantities)} quantities of "
            f"{len({s.module for s in self.subscriptions})} modules, "
            f"{len(self._queue.records)} records, next step {self._step}{state}>"
        )

    def _repr_html_(self) -> str:
        """The findings, as a notebook shows them."""
        return f"<p>{html.escape(repr(self))}</p>{Findings(self.findings)._repr_html_()}"

    def get_output(self, mode: Mode = "train") -> dict[str, dict[str, dict[int, Value]]]:
        """Records as ``{module: {quantity: {step: value}}}``."""
        return self.records.select(mode=mode).nested()

    def _track(self, due: DueWork, step: int, scale: Scale) -> None:
        failures: dict[Series, str] = {}
        with self._session.ending_step() as unread:
            try:
                if due.asked or self._queue.logged:
                    failures = self._collect(due, step, scale, unread)
            finally:  # whatever a quantity raised, the next step is a new one
                self._installation.end_step()
                self._raise_cadence(step)
                self._prepare(step + 1)
        is_again, self._last = step == self._last, step
        if not is_again:
            self._queue.report(step, failures)
        self._queue.take(
            all_of_it=self._strict or (self._watch.skips and self._collector.join is None)
        )
        if self._writers:
            self._queue.write_pending()

    def _react(self, step: int, scale: Scale) -> None:
        """Looks for findings, and does what they ask for; whatever fails, training goes on."""
        try:
            self._do_what_is_found(step, scale)
        except Exception as error:
            if self._strict:
                raise
            text = f"looking for findings failed: {type(error).__name__}: {error}"
            self._warn_once("findings", text)

    def _do_what_is_found(self, step: int, scale: Scale) -> None:
        is_warned = any(not site.is_overflow for site in self.non_finite)
        found = self._watch.after(
            step,
            self._queue.records,
            self._find,
            may_overflow=scale.may_overflow,
            warned_of=("non_finite",) if is_warned else (),
        )
        if found.raises_cadence:
            self.raise_cadence()
        self._cadence.wishes_end |= found.stops
        if self._collector.join is None and (found.raises_cadence or found.stops):
            self._raise_cadence(step)
            self._prepare(step + 1)
        self._queue.add_events(found.events)
        if found.events and self._writers:
            self._queue.write_pending()

    def _find(self, evidence: Evidence) -> list[Finding]:
        """All findings in some evidence, of all records or of those that the watch keeps."""
        known = replace(
            evidence,
            reasons=self.missing,
            squashed=self._squashed,
            before_module=lambda module: functions_before(self.outline, module),
            groups=groups_of(self._modules, self._collector.whole.optimizers),
            hooks=hooks_of(self._modules),
        )
        found = find(known, strict=self._strict)
        for one in found:
            if one.kind == "rule_failed" and not one.module:
                self._warn_once(one.text, f"looking for findings: {one.text}")
        return found

    def _raise_cadence(self, step: int) -> None:
        """Makes adaptive schedules due after a step, if that was wished and all ranks know."""
        join = self._collector.join
        if join is None or join.ranks.gate.ended is not None:
            self._cadence.grant(self._cadence.wished, end=self._cadence.wishes_end)
        granted = self._cadence.take()
        if granted:
            self._due.raise_after(step, granted)

    def _prepare(self, step: int) -> None:
        self._step = step
        self._announced: set[int] = {step}
        if not self._paused:
            self._installation.set_due(self._due.at(step).readings)

    def _collect(
        self, due: DueWork, step: int, scale: Scale, unread: str | None
    ) -> dict[Series, str]:
        if step not in self._announced:
            unread = unread or _NOT_ANNOUNCED
        join = self._collector.join
        if join is not None and self._session.is_uneven:
            join.ranks.gate.ended = join.ranks.gate.ended or UNEVEN
        logged = [*self._queue.logged]
        here = self._recorded_here(logged)
        with torch.no_grad():
            collected = self._collector.collect(due, step, scale, here, unread=unread)
        self._queue.put(collected, len(logged))
        self._queue.keep_reasons(step, collected.reasons)
        if join is not None and join.ranks.gate.ended is not None:
            self._warn_of_ranks(step, join.ranks.gate.ended)
        return collected.failures

    def _warn_of_ranks(self, step: int, why: str) -> None:
        text = (
            f"from step {step} on the ranks no longer exchange statistics, so numbers of the "
            f"whole batch are missing: {why}"
        )
        if self._strict:
            raise RuntimeError(text)
        self._warn_once("ranks", text)

    def _warn_of_skips(self) -> None:
        if self._watch.skips:
            self._warn_once(
                "skips",
                'on_finding="skip" leaves out no step where several ranks are joined: only one of '
                "them knows what is found, and all would have to leave it out",
            )

    def _warn_of_order(self, step: int) -> None:
        """Warns of a step that was tracked before, or of one before that."""
        if self._last is None or step > self._last or step in self._announced:
            return
        if step == self._last:
            self._warn_once(
                "twice",
                f"track({step}) was called twice: call it once for each optimizer step, with a "
                "number that counts them over all epochs; what the second call finds is recorded "
                f"at step {step} too",
            )
        else:
            self._warn_once(
                "backwards",
                f"track({step}) was called after track({self._last}): steps count up over the "
                "whole training, over all epochs. To train anew with this monitor, call "
                "monitor.clean_mem() and monitor.start_at(0) first; to track a step out of order, "
                "run its forward inside `with monitor.at(step):`",
            )

    def _warn_of_threads(self) -> None:
        if self._session.threads.has_beside:
            self._warn_once(
                "threads",
                "forwards of the instrumented model ran in another thread than the one that calls "
                "track: they are not read, only those of the tracking thread are. For inference "
                "beside training call the model that instrument was given, or the instrumented one "
                "under torch.no_grad()",
            )
        if self._session.has_unread:
            self._warn_once(
                "evaluation in threads",
                "a call of the instrumented model was not read, as one in another thread was under "
                "way: call it in one thread at a time, as by a lock",
            )

    def _warn_once(self, of: str, text: str) -> None:
        if of not in self._warned:
            self._warned.add(of)
            warn(text)

    def _form(self) -> None:
        """Agrees with other ranks, if there are any, on the ranks to join."""
        self._is_formed = True
        self._session.on_many_untracked = None
        every = [(s.module, s.label, str(s.schedules), str(s.options)) for s in self.subscriptions]
        ended = UNEVEN if self._session.is_uneven else None
        ranks = form(*self._groups, repr(every), ended)
        if ranks is not None and ranks.is_writer and self._groups[1] is None:
            _warn_of_tensor_parallel(self._root)
        if ranks is not None:
            ranks.cadence.wish(self._cadence.wished)
            self._cadence = ranks.cadence
            self._warn_of_skips()
        self._collector.join = ranks and Join(ranks, self.subscriptions, self._table)
        if self._writer is not None:
            self._writers.drop()
        elif self._writers:
            self._writers.open(self.info, may_fail=True)
            warn_of(self._writers.pop_errors())

    def _open_alone(self) -> None:
        """Opens the writers, if it is certain that this rank records."""
        may_be_joined = self._groups[0] is not None and dist.is_initialized()
        if self._is_formed or not may_be_joined:
            self._writers.open(self.info)

    @property
    def _writer(self) -> int | None:
        """The rank that records, if it is not this one."""
        join = self._collector.join
        return None if join is None or join.ranks.is_writer else join.ranks.members[0]

    def _recorded_here(self, logged: list[Column]) -> list[Column]:
        return logged if self._writer is None else []


def _facts(
    config: Config, modules: Mapping[str, nn.Module]
) -> Callable[[Series], tuple[str, str, str]]:
    """A function that gives the facts about a series that rules look at."""
    describe = describer(modules, config.subscriptions)

    def facts(series: Series) -> tuple[str, str, str]:
        info = describe(series)
        return info.direction, info.health, info.unit

    return facts


def _warn_of_untracked() -> None:
    warn(
        f"the model ran {MANY_UNTRACKED} forwards in training, but track was never called: nothing "
        "is recorded until it is. Call monitor.track(step) once for each optimizer step, after "
        "backward and before optimizer.step()"
    )


def _warn_of_tensor_parallel(model: nn.Module) -> None:
    name = tensor_parallel(model)
    if name is not None:
        warn(
            f"the parameter {name!r} is held in parts by ranks that see one batch, as with tensor "
            "parallelism, but data_group was not given: what passes modules is counted once for "
            "each of these ranks, and gradients are divided by their number. Give instrument the "
            'ranks that the data are split over, as data_group=mesh["data"].get_group(), or '
            "data_group=dist.group.WORLD if each rank has a batch of its own"
        )


_MONITORS: weakref.WeakSet[Monitor] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for monitor in list(_MONITORS):
        try:
            monitor.close()
        except BaseException:  # noqa: BLE001 - the others are closed all the same
            traceback.print_exc()


def _scalar(name: str, value: float | Tensor) -> Tensor:
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(
                f"{name!r} has the shape {tuple(value.shape)}, but a series takes one number a "
                "step: reduce it first, as by .mean()"
            )
        return value.detach().reshape(()).clone()
    if hasattr(value, "__index__") and not isinstance(value, bool):
        number = operator.index(cast(SupportsIndex, value))
        if not -(2**63) <= number < 2**63:
            raise ValueError(f"{name!r}: {number} has more than 64 bits")
        return torch.tensor(number)
    if isinstance(value, (bool, float)) or hasattr(value, "__float__"):
        return torch.tensor(float(value), dtype=torch.float64)
    raise TypeError(f"{name!r}: the value has to be a number, not {value!r}")
