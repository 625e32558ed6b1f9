"""The monitor: the face of what is read, recorded and found while a model trains."""

from __future__ import annotations

import html
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch import distributed as dist

from taiyi_fx.config.subscriptions import Config, Subscription
from taiyi_fx.findings import Finding, Findings
from taiyi_fx.findings.finding import Severity
from taiyi_fx.outline import Outline
from taiyi_fx.outline.build import Outliner
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.module_tree import named_modules
from taiyi_fx.passes.runtime.build import Instrumented
from taiyi_fx.recorder.recorder import Recorder
from taiyi_fx.recorder.replay.function_rerun import StepEnds
from taiyi_fx.recorder.replays import Training
from taiyi_fx.recorder.training_recorder import TrainingRecorder
from taiyi_fx.records.epochs import Epochs, EpochSummary, Statistics
from taiyi_fx.records.record import Records, Value
from taiyi_fx.schedule import check_step, whole
from taiyi_fx.step.at_exit import close_at_exit, discard, is_process_ending
from taiyi_fx.step.postponed import Postponed
from taiyi_fx.step.queue import StepQueue
from taiyi_fx.step.ranks.launch import launch_token
from taiyi_fx.step.ranks.meet import ALONE, Groups
from taiyi_fx.step.statistics import UNSCALED, Scale
from taiyi_fx.step.tracker import Tracker
from taiyi_fx.step.whole_model import check_optimizers
from taiyi_fx.warning import warn, warn_of
from taiyi_fx.watch import NOTHING, OnFinding, Responder, WatchOptions
from taiyi_fx.watch.pace import MOST
from taiyi_fx.writers.protocol import RunInfo, Writer
from taiyi_fx.writers.run_info import describer, run_info
from taiyi_fx.writers.writer_group import WriterGroup


class Monitor:
    """Collects the quantities of an instrumented model while it trains.

    Attributes:
        missing: The reason for each value that was missing when last due, by module and quantity.
        epochs: Summaries of all scalar series, from each `tick_epoch`.
        non_finite: The first sites of steps that brought a NaN or an Inf, where ``NonFinite`` or
            its siblings are configured: of each such step the first value in order of execution,
            then the first gradient in order of backward. The first is warned of, once a run.
            Gradients that overflow under a scaler are no fault: ``is_overflow`` says so.
    """

    def __init__(  # noqa: PLR0913 - what instrument made, given by name
        self,
        config: Config,
        compiled: Instrumented,
        *,
        start_step: int = 0,
        strict: bool = False,
        epoch_statistics: Statistics = "exact",
        groups: Groups = ALONE,
        writers: Sequence[Writer] = (),
        watched: WatchOptions = NOTHING,
        recorder: Recorder | None = None,
    ) -> None:
        self.epochs: list[EpochSummary] = []
        self._config = config
        self._root, self._session = compiled.root, compiled.session
        self._modules = dict(named_modules(compiled.root))
        self._outline = Outliner(compiled, config.subscriptions)
        self._start_step = start_step
        self._part = groups.part
        self._writers = WriterGroup(strict=strict)
        self._queue = StepQueue(Epochs(epoch_statistics), self._writers)
        self.missing = self._queue.missing
        self.non_finite = self._queue.non_finite
        self._writers.add(writers)
        self._recorder = recorder
        self._recorded = None if recorder is None else recorder.begin(compiled.table, strict=strict)
        self._tracker = Tracker(
            config.subscriptions,
            compiled,
            self._modules,
            self._queue,
            groups,
            first=start_step,
            strict=strict,
            recorded=None if self._recorded is None else self._recorded.ring,
        )
        describe = describer(self._modules, config.subscriptions)
        self._responder = Responder(
            watched,
            describe,
            self._outline,
            self._modules,
            self._tracker,
            self._queue,
            strict=strict,
        )
        self._session.on_call = self._responder.diagnosis.inputs.look_at
        self._session.on_return = self._responder.diagnosis.losses.look_at_returned
        self._postponed = Postponed()
        if self._recorded is not None:
            self._responder.watch.pace.rarest = MOST  # so far back it can run a step again
            self._recorded.attach(self._training(strict))
        weakref.finalize(self, self._writers.close).atexit = False  # the next line does it better
        close_at_exit(self)
        if writers:
            self._open_alone()

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
    def recorder(self) -> Recorder | None:
        """The recorder that `instrument` was given."""
        return self._recorder

    @property
    def next_step(self) -> int:
        """The step that the next forward is read for."""
        return self._tracker.steps.next

    @property
    def is_writing(self) -> bool:
        """True if writers are open, which they are from the first step on."""
        return self._writers.are_open

    @property
    def info(self) -> RunInfo:
        """The facts about the run, as writers get them."""
        rank = dist.get_rank() if dist.is_initialized() else 0
        config, start = self.subscriptions, self._start_step
        has_parts = self._part or (dist.is_initialized() and dist.get_world_size() > 1)
        launch = launch_token() if has_parts else ""
        run = self._root, self._modules, config, start, rank, self._outline
        return run_info(*run, self._part, launch)

    @property
    def records(self) -> Records:
        """Everything recorded so far; waits for what is still being computed."""
        return self._tracker.finish()

    @property
    def findings(self) -> Findings:
        """The faults that show in the numbers recorded so far, most urgent first.

        A finding names the cause; what follows from it is among its `consequences`.
        """
        records = self.records
        found = self._responder.diagnosis.of_records(records)
        responder = self._responder
        remarks = self._remark(records), responder.show(found), responder.diagnosis.remark
        found.remark = "; ".join(filter(None, remarks))
        return found

    @property
    def on_finding(self) -> OnFinding:
        """The actions at a new finding: see `instrument`. May be set.

        Raises:
            TypeError: What is set is no such thing.
            ValueError: A text is no action, and no address of http or https.
        """
        return self._responder.watch.on_finding

    @on_finding.setter
    def on_finding(self, asked: OnFinding) -> None:
        self._record()
        self._responder.watch.on_finding = asked

    @property
    def finding_severity(self) -> Severity:
        """The lowest severity of findings that are acted upon. May be set.

        Raises:
            ValueError: What is set is no severity.
        """
        return self._responder.watch.severity

    @finding_severity.setter
    def finding_severity(self, severity: Severity) -> None:
        self._record()
        self._responder.watch.severity = severity

    @property
    def knows_loss(self) -> bool:
        """True if a loss was logged before its backward, which tells how it is made."""
        return self._responder.diagnosis.losses.knows_graph

    def returned_loss(self) -> Tensor | None:
        """The loss that the model itself returned in its training forwards since the last call.

        For loops that do not see it, to be logged by `log` once a step: a number on the device that
        it was computed on. It is the mean of the micro-batches, and their sum where the model is
        told ``num_items_in_batch``, by which those of transformers make each one's share. None
        where the model returned no loss that can be told from other tensors, and of the first call,
        from which on it is kept.
        """
        calls = self._responder.diagnosis.calls
        self._session.on_call, self._session.on_return = calls.on_call, calls.on_return
        return calls.returned_loss()

    @property
    def should_stop(self) -> bool:
        """True once a finding is to stop the training, as ``on_finding="stop"`` asks.

        Look at it after `track`. Where several ranks are joined it is true on all of them, at the
        first step after it that they exchange readings at.
        """
        return self._tracker.steps.cadence.is_end

    @property
    def can_skip(self) -> bool:
        """True if ``on_finding`` has ``"skip"``, so that `should_skip` may be true."""
        return self._responder.can_skip

    @property
    def should_skip(self) -> bool:
        """True if the optimizer is to leave out the tracked step, as ``on_finding="skip"`` asks.

        It is for steps that have a number which is not finite, and for those at which a finding is
        new. Gradients that overflow under a scaler are left to it.
        """
        return self.can_skip and self._responder.watch.should_skip

    def track(
        self,
        step: int | None = None,
        grad_scale: float | torch.amp.GradScaler | None = None,
        *,
        micro_batches: int = 1,
    ) -> None:
        """Records what is due at a step and prepares the next one.

        Call it once for each optimizer step, after backward: before ``optimizer.step()`` and
        before gradients are cleared. Several forwards and backwards before it are one step.
        Eigenvalues and singular values are computed in the background, by one thread; their
        records belong to this step, and `records` waits for them.

        Args:
            step: The step's number, by default one more than the last. Its readings were chosen by
                the ``track`` before, for that step + 1, or by `at`.
            grad_scale: The factor that the loss was multiplied with. Gradients of inputs and
                outputs are divided by it. With a number, parameter gradients are divided too;
                with the scaler itself, only if they still carry it (``unscale_`` takes it out),
                and gradients alone that are not finite are not warned of: the scaler skips such
                a step.
                With several optimizers, call ``track`` before the first ``unscale_`` or after all.
            micro_batches: The number of micro-batches where parameter gradients were divided by it
                after backward, as schedules of ``torch.distributed.pipelining`` do: gradients of
                inputs and outputs, which still sum over micro-batches, are then divided by it too.

        Raises:
            ValueError: ``micro_batches`` is below 1.
        """
        if self._tracker.steps.is_paused:
            return
        step = step if type(step) is int else self._numbered(step)
        if self._recorder is not None and self._recorder.is_replaying:
            raise StepEnds  # what follows in the function is the training's alone
        if not self._tracker.is_begun:
            self._begin()
        self._responder.watch.should_skip = False
        if micro_batches == 1 and step + 1 < self._tracker.steps.idle_until:
            logged = self._queue.logged
            if self._tracker.pass_over(step, logged):
                if logged or not (self._postponed.are_waiting or self._queue.is_at_rest):
                    self._record_soon(step, UNSCALED)
                return
        scale = UNSCALED
        if grad_scale is not None or micro_batches != 1:
            scale = Scale.of(grad_scale).over(micro_batches)
        if self._recorded is not None:
            is_scaler = isinstance(grad_scale, torch.amp.GradScaler)
            self._recorded.track(step, grad_scale if is_scaler else None)
        if self._tracker.track(step, scale):
            self._record_soon(step, scale)

    def _numbered(self, step: int | None) -> int:
        return self._tracker.steps.next if step is None else whole("step", step)

    def log(
        self,
        name: str,
        value: float | Tensor,
        *,
        step: int | None = None,
        mode: Mode | None = None,
    ) -> None:
        """Records a number of your own, a loss or a metric, as a series of the model itself.

        A tensor stays on its device until the next `track`, which takes it along. Of training,
        what is logged under one name until then, as of micro-batches, is one number: the mean.

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
        is_replaying = self._recorder is not None and self._recorder.is_replaying
        if not (self._tracker.steps.is_paused or is_replaying):
            self._tracker.log(name, value, step, mode)
            self._responder.diagnosis.losses.look_at(name, value)

    def watch_optimizer(self, *optimizers: torch.optim.Optimizer) -> None:
        """Takes the optimizers that train the model, for its learning rates and parameter groups.

        They replace those that were known before. Groups are counted over all of them.

        Raises:
            TypeError: One has no ``param_groups``.
        """
        self._tracker.whole.optimizers = check_optimizers(optimizers)

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
        self._record()
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
        self._record()
        return self._tracker.explain(module, quantity)

    @contextmanager
    def at(self, step: int) -> Iterator[None]:
        """Reads forwards in the body for this step instead of the one after the last."""
        with self._tracker.steps.at(whole("step", step)):
            yield

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
        self._tracker.raise_cadence(steps)

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
        self._record()
        is_back = step < self.next_step
        if self._recorded is not None:
            self._recorded.clear()
        self._start_step = step
        self._tracker.start_at(step)
        if is_back:
            self._responder.watch.clear()

    @property
    def is_paused(self) -> bool:
        """True between `pause` and `resume`."""
        return self._tracker.steps.is_paused

    def pause(self) -> None:
        """Reads and records nothing until `resume`; the model runs its own forward."""
        self._tracker.pause()

    def resume(self) -> None:
        """Reads and records again after `pause`."""
        self._tracker.resume()

    def close(self) -> None:
        """Ends monitoring and closes the writers: the model runs its own forward. Records stay.

        Findings that were not reported yet are reported now, and a recorder that keeps steps runs
        those of alerts again, unless the process ends.
        """
        self._tracker.warn_if_never_tracked()
        self.pause()
        try:
            _ = self.records
            self._record()
            found = self._responder.at_end()
            if self._recorded is not None:
                runs_again = not is_process_ending()
                self._queue.add_events(self._recorded.at_end(found, runs_again=runs_again))
                self._responder.diagnosis.run_again = self._recorded.made_by
            self._queue.write_pending()
            self._responder.watch.close()
        finally:
            self._tracker.close()
            if self._recorded is not None:
                self._recorded.close()
            self._writers.close()
            warn_of(self._writers.pop_errors())
        # Not after an interrupt: the records that it delayed are written when the process ends.
        discard(self)

    def clean_mem(self) -> None:
        """Drops all records, and all values kept for quantities that span steps."""
        _ = self.records  # values that are still being computed are dropped, too
        self._record()
        self.epochs.clear()
        self._queue.clear()
        self._responder.watch.clear()
        self._tracker.clear()

    def __repr__(self) -> str:
        self._record()
        kind, quantities = type(self._root).__name__, {s.label for s in self.subscriptions}
        state = ", paused" if self._tracker.steps.is_paused else ""
        return (
            f"<Monitor of {kind}: {len(quantities)} quantities of "
            f"{len({s.module for s in self.subscriptions})} modules, "
            f"{len(self._queue.records)} records, next step {self.next_step}{state}>"
        )

    def _repr_html_(self) -> str:
        """The findings, as a notebook shows them."""
        return f"<p>{html.escape(repr(self))}</p>{self.findings._repr_html_()}"

    def get_output(self, mode: Mode = "train") -> dict[str, dict[str, dict[int, Value]]]:
        """Records as ``{module: {quantity: {step: value}}}``.

        Args:
            mode: ``"train"`` or ``"eval"``, which ``record_eval=True`` reads. A warning says so if
                there are records of evaluation alone and those of training are asked for.
        """
        chosen = self.records.select(mode=mode).nested()
        if mode == "train" and not chosen and self.records:
            warn("there are no records of mode 'train': get_output(mode='eval') has them all")
        return chosen

    def _remark(self, records: Records) -> str:
        """A text on numbers that the training loop leaves out; empty if there is none."""
        if records or self._tracker.is_begun:
            return self._tracker.loop.remark
        return "nothing was recorded: call monitor.track(step) after each backward"

    def _record_soon(self, step: int, scale: Scale) -> None:
        """Records a step, now or together with those after it."""
        self._postponed.add(step, scale)
        if self._postponed.are_due or not self._may_postpone():
            self._record()

    def _may_postpone(self) -> bool:
        """True if nobody sees that a step is recorded a moment later."""
        if self._queue.missing or self._recorder is not None or self._writers:
            return False
        return self._tracker.may_postpone and not self._responder.watch.is_heard

    def _record(self) -> None:
        """Records the steps that were postponed, and looks for findings after each."""
        waits = self._responder.watch.skips and self.can_skip
        for step, scale, left in self._postponed.taken():
            if self._tracker.record(step, but_last=left, waits=waits):
                findings = self._responder.after(step, scale)
                if self._recorded is not None:
                    self._tell_recorder(self._recorded, step, findings)

    def _tell_recorder(
        self, recorder: TrainingRecorder, step: int, findings: Sequence[Finding]
    ) -> None:
        events = recorder.after(step, findings)
        if not events:
            return
        self._responder.diagnosis.run_again = recorder.made_by
        self._queue.add_events(events)
        if self._queue.is_written:
            self._queue.write_pending()

    def _training(self, strict: bool) -> Training:
        """The training, as a recorder has it."""
        tracker = self._tracker

        def next_step() -> int | None:
            return None if tracker.steps.is_paused else tracker.steps.next

        return Training(
            self._session,
            lambda: tracker.whole.optimizers,
            next_step,
            strict,
        )

    def _begin(self) -> None:
        """Begins with the first tracked step: meets other ranks, and opens the writers."""
        self._tracker.begin()
        self._responder.diagnosis.begin()
        if self._tracker.writer is not None:
            self._writers.drop()
        elif self._writers:
            self._writers.open(self.info, may_fail=True)
            warn_of(self._writers.pop_errors())
        self._responder.warn_if_none_skips()

    def _open_alone(self) -> None:
        """Opens the writers, if it is certain that this rank records."""
        if self._tracker.surely_records:
            self._writers.open(self.info)
