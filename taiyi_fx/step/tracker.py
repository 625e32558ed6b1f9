"""Tracks steps: collects what is due at each, and has records made of it in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch import distributed as dist

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.probes.modes import with_modes_off
from taiyi_fx.passes.runtime.build import Instrumented
from taiyi_fx.passes.runtime.session import MANY_UNTRACKED
from taiyi_fx.records.record import Records, Series
from taiyi_fx.schedule import has_adaptive, whole
from taiyi_fx.step.collect import Collector, TrackedStep
from taiyi_fx.step.due import DueTable, DueWork, Recorded
from taiyi_fx.step.explain import Known, explain
from taiyi_fx.step.logged import check_name_and_mode, folded, logged
from taiyi_fx.step.queue import StepQueue
from taiyi_fx.step.ranks import UNEVEN
from taiyi_fx.step.ranks.meet import meet
from taiyi_fx.step.statistics import Scale
from taiyi_fx.step.steps import Steps
from taiyi_fx.step.training_loop import TrainingLoop
from taiyi_fx.step.transfer import Column, Outcome, Transfer
from taiyi_fx.step.whole_model import WholeModel
from taiyi_fx.warning import WarnOnce, warn

if TYPE_CHECKING:
    from taiyi_fx.step.ranks.meet import Groups

DENSE_STEPS = 20
"""The number of steps with a raised cadence."""

_NOT_ANNOUNCED = (
    "the forward had been prepared for another step than the one tracked; call track at every "
    "optimizer step, or run the forward inside `with monitor.at(step):`"
)


class Tracker:
    """Makes records of a model's steps, alone or together with other ranks.

    Args:
        subscriptions: All subscriptions.
        compiled: The instrumented model.
        modules: The model's modules, by name.
        queue: Takes what was collected, and makes records of it.
        groups: The ranks to join.
        first: The step of the first forward.
        strict: Raise what goes wrong.
        recorded: Readings beside those of quantities; None if there are none.

    Attributes:
        steps: Counts the steps, and knows what is due at them.
        loop: Tells of what a training loop does so that values are missing.
        is_begun: True if a step was tracked, or is being tracked.
    """

    def __init__(
        self,
        subscriptions: Sequence[Subscription],
        compiled: Instrumented,
        modules: Mapping[str, nn.Module],
        queue: StepQueue,
        groups: Groups,
        *,
        first: int,
        strict: bool,
        recorded: Recorded | None = None,
    ) -> None:
        self._subscriptions = subscriptions
        self._recorded = recorded
        self._modules = modules
        self._root, self._table = compiled.root, compiled.table
        self._installation, self._session = compiled.installation, compiled.session
        self._queue = queue
        self._groups = groups
        self._strict = strict
        self._warn = WarnOnce()
        modes: tuple[Mode, ...] = ("train",)
        if self._installation.run.record_eval:
            modes = ("train", "eval")
        self._collector = Collector(modules, self._table, modes, strict=strict)
        self._names_of_model = {s.label for s in subscriptions if s.is_of_model}
        self._has_adaptive = has_adaptive(s.schedules for s in subscriptions)
        self.is_begun = False
        if groups.process is not None:
            self._table.join()
        self._session.on_many_untracked = _warn_of_untracked
        self.loop = TrainingLoop(self._session, self._table, self._root)
        due = DueTable(subscriptions, modules, recorded)
        self.steps = Steps(due, self._installation, first)

    @property
    def is_alone(self) -> bool:
        """True if no other rank is joined with this one."""
        return self._collector.join is None

    @property
    def writer(self) -> int | None:
        """The rank that records, if it is not this one."""
        join = self._collector.join
        return None if join is None or join.ranks.is_writer else join.ranks.members[0]

    @property
    def surely_records(self) -> bool:
        """True if this rank records; false also if that is agreed on with the first step."""
        if self.is_begun:
            return self.writer is None
        return self._groups.process is None or not dist.is_initialized()

    @property
    def whole(self) -> WholeModel:
        """The model as a whole: its optimizer, and the losses logged."""
        return self._collector.whole

    def begin(self) -> None:
        """Agrees with other ranks, if there are any, on the ranks to join."""
        self.is_begun = True
        self._session.on_many_untracked = None
        is_uneven = self._session.is_uneven
        join = meet(self._groups, self._subscriptions, self._table, self._root, is_uneven=is_uneven)
        if join is not None:
            join.ranks.cadence.wish(self.steps.cadence.wished)
            self.steps.cadence = join.ranks.cadence
        self._collector.join = join

    @with_modes_off
    def track(self, step: int, scale: Scale) -> bool:
        """Computes what is due at a step and prepares the next one; false if the step is dropped.

        Args:
            step: The step.
            scale: The factor of its gradients.

        Raises:
            Exception: Whatever goes wrong, if strict.
        """
        due = self.steps.due_at(step)
        if step != self.steps.next:
            self.steps.warn_of_order(step)
        try:
            self._track(due, step, scale)
        except Exception as error:  # whatever it was, training goes on, and so does monitoring
            if self._strict:
                raise
            self._drop(step, error)
            is_tracked = False
        else:
            is_tracked = True
        if self._session.threads.has_beside or self._session.has_unread:
            self._warn_of_threads()
        return is_tracked

    def pass_over(self, step: int, logged: Sequence[Column]) -> bool:
        """Ends a step of which nothing is read; false if it has to be tracked.

        Args:
            step: The step.
            logged: The user's own numbers that belong to it.

        Raises:
            Exception: Whatever goes wrong, if strict.
        """
        threads = self._session.threads
        if threads.read or threads.unread or self._installation.is_always:
            return False
        if logged and self._collector.join is not None:
            return False
        if not self.steps.pass_over(step):
            return False
        if logged:
            try:
                own = self._logged_for(step, logged)
                transfer = Transfer(Outcome(), own, strict=self._strict)
                self._queue.put(TrackedStep(step, transfer), len(logged))
            except Exception as error:  # training goes on
                if self._strict:
                    raise
                self._drop(step, error)
        return True

    @property
    def may_postpone(self) -> bool:
        """True if nothing that follows depends on the records of the last step."""
        return not (self._strict or self._has_adaptive or self._collector.join is not None)

    @with_modes_off
    def record(self, step: int, *, but_last: int, waits: bool) -> bool:
        """Records a step that was tracked, and those before it; false if the step is dropped.

        Args:
            step: The step.
            but_last: The number of steps that were tracked after it, which are left.
            waits: True to wait for the values.

        Raises:
            Exception: Whatever goes wrong, if strict.
        """
        try:
            self._queue.take(all_of_it=self._strict or waits, but_last=but_last)
            if self._queue.is_written:
                self._queue.write_pending()
        except Exception as error:  # training goes on
            if self._strict:
                raise
            self._drop(step, error)
            return False
        return True

    @with_modes_off
    def log(self, name: str, value: float | Tensor, step: int | None, mode: Mode | None) -> None:
        """Takes a number of the user's own: see `Monitor.log`."""
        if type(name) is not str or mode is not None:
            check_name_and_mode(name, mode)
        if name in self._names_of_model:
            raise ValueError(f"{name!r} is a quantity of the model itself: log under another name")
        mode = mode or ("train" if self._root.training else "eval")
        is_of_next = step is None and mode == "train"
        if step is None:
            step = self.steps.next if is_of_next else max(self.steps.next - 1, 0)
        elif type(step) is not int:
            step = whole("step", step)
        self._queue.log(logged(name, value, step, mode, is_of_next=is_of_next))

    def explain(self, module: str, quantity: str) -> str:
        """The reason why a series has no value, and when it is next due: see `Monitor.explain`."""
        records = self.finish()  # first: what is still being computed may be missing
        steps, missing = self.steps, self._queue.missing
        known = Known(
            self._modules, self._subscriptions, records, missing, steps.next, steps.raised
        )
        text = explain(module, quantity, known)
        if self.writer is not None:
            text += f" (records are kept by rank {self.writer})"
        return f"{text} (the monitor is paused)" if steps.is_paused else text

    def raise_cadence(self, steps: int) -> None:
        """Wishes that adaptive schedules are due at each of so many steps.

        Raises:
            TypeError: It is not a whole number.
            ValueError: It is below 1.
        """
        steps = whole("steps", steps)
        if steps < 1:
            raise ValueError(f"steps is a whole number of at least 1, not {steps}")
        self.steps.cadence.wish(steps)

    def wish(self, step: int, *, reads_densely: bool, ends: bool) -> None:
        """Wishes, after a step, to read densely for a while, and that training ends."""
        if reads_densely:
            self.steps.cadence.wish(DENSE_STEPS)
        self.steps.cadence.wishes_end |= ends
        if self.is_alone and (reads_densely or ends):
            # After a postponed step others may have been tracked.
            following = max(step + 1, self.steps.next)
            self.steps.raise_cadence(following - 1, is_alone=True)
            self.steps.prepare(following)

    @with_modes_off
    def finish(self) -> Records:
        """All records; waits for what is still being computed."""
        if waiting := self._queue.logged:
            logged = self._logged_for(self.steps.next, waiting)
            transfer = Transfer(Outcome(), self._recorded_here(logged))
            self._queue.put(TrackedStep(self.steps.next, transfer), len(waiting))
        self._queue.take(all_of_it=True)
        return self._queue.records

    def start_at(self, step: int) -> None:
        """Makes this the next step, as after a checkpoint was loaded."""
        if step != self.steps.next:
            self._collector.clear()
        self.steps.start_at(step)

    def pause(self) -> None:
        """Reads and records nothing until `resume`."""
        self._session.on_many_untracked = None
        self.steps.pause()
        self._table.clear()

    def resume(self) -> None:
        """Reads and records again after `pause`."""
        self._table.clear()
        self.steps.resume()

    def clear(self) -> None:
        """Drops all that was read, and all values kept for quantities that span steps."""
        self._collector.clear()
        self._table.clear()

    def close(self) -> None:
        """Ends all reading, for good."""
        self._installation.close()

    def warn_if_never_tracked(self) -> None:
        """Warns if forwards were read in vain."""
        is_told = self._session.untracked >= MANY_UNTRACKED
        if not (self.is_begun or is_told) and self._table.states():
            warn("forwards were read, but track was never called: nothing was recorded of them")

    def _track(self, due: DueWork, step: int, scale: Scale) -> None:
        failures: Mapping[Series, str] = {}
        has_grad = torch.is_grad_enabled()
        is_alone, unread = self._session.begin_tracking()
        if forwards := self._session.forwards:
            self._collector.whole.forwards = forwards
        try:
            torch._C._set_grad_enabled(False)  # `torch.no_grad()` without its objects
            if self._recorded is not None and due.is_recorded and unread is None:
                self._recorded.take(step, scale.factor)
            if due.asked or self._queue.logged:
                failures = self._collect(due, step, scale, unread)
        finally:  # whatever a quantity raised, the next step is a new one
            torch._C._set_grad_enabled(has_grad)
            join = self._collector.join
            try:
                # No exchange with other ranks will bring what is wished of the cadence.
                is_without_others = join is None or join.ranks.gate.ended is not None
                self.steps.end(step, is_alone=is_without_others)
            finally:
                self._session.end_tracking(is_alone)
        if not self.steps.count(step) and failures:
            self._queue.report(step, failures)

    def _collect(
        self, due: DueWork, step: int, scale: Scale, unread: str | None
    ) -> dict[Series, str]:
        if step != self.steps.next and not self.steps.is_read(step):
            unread = unread or _NOT_ANNOUNCED
        join = self._collector.join
        if join is not None and self._session.is_uneven:
            join.ranks.gate.ended = join.ranks.gate.ended or UNEVEN
        waiting = self._queue.logged
        logged = self._logged_for(step, waiting) if waiting else []
        here = self._recorded_here(logged) if logged else ()
        collected = self._collector.collect(due, step, scale, here, unread=unread)
        if unread is None and (collected.failures or collected.reasons or self.loop.remark):
            self.loop.look_at(collected)
        self._queue.put(collected, len(waiting))
        if collected.reasons:
            self._queue.keep_reasons(step, collected.reasons)
        if join is not None and join.ranks.gate.ended is not None:
            self._warn_of_ranks(step, join.ranks.gate.ended)
        return collected.failures

    def _logged_for(self, step: int, waiting: Sequence[Column]) -> list[Column]:
        """The user's own numbers that wait for a step, which is tracked now."""
        found = folded(waiting) if len(waiting) > 1 else [*waiting]
        if self.steps.are_new:
            found = [c._replace(step=step) if c.is_of_next else c for c in found]
        for column in found:
            self._collector.whole.log(column)
        return found

    def _recorded_here(self, logged: Sequence[Column]) -> Sequence[Column]:
        return logged if self.writer is None else ()

    def _drop(self, step: int, error: Exception) -> None:
        text = f"step {step} is dropped: {type(error).__name__}: {error}"
        due = self.steps.due_at(step).asked
        emitted = [(s.module, s.label) for s, is_emitted in due if is_emitted]
        logged = [series for column in self._queue.logged for series in column.of]
        self._queue.drop(step)
        self._queue.report(step, dict.fromkeys([*emitted, *logged], text))

    def _warn_of_ranks(self, step: int, why: str) -> None:
        text = (
            f"from step {step} on the ranks no longer exchange statistics, so numbers of the "
            f"whole batch are missing: {why}"
        )
        if self._strict:
            raise RuntimeError(text)
        self._warn.of("ranks", text)

    def _warn_of_threads(self) -> None:
        if self._session.threads.has_beside:
            self._warn.of(
                "threads",
                "forwards of the instrumented model ran in another thread than the one that calls "
                "track: they are not read, only those of the tracking thread are. For inference "
                "beside training call the model that instrument was given, or the instrumented one "
                "under torch.no_grad()",
            )
        if self._session.has_unread:
            self._warn.of(
                "evaluation in threads",
                "a call of the instrumented model was not read, as one in another thread was under "
                "way: call it in one thread at a time, as by a lock",
            )


def _warn_of_untracked() -> None:
    warn(
        f"the model ran {MANY_UNTRACKED} forwards in training, but track was never called: nothing "
        "is recorded until it is. Call monitor.track(step) once for each optimizer step, after "
        "backward and before optimizer.step()"
    )
