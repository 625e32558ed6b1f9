"""The replays of a training: steps are kept as they happen, and run again at an alert."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist
from torch.optim import Optimizer

from taiyi_fx.findings import Finding
from taiyi_fx.passes.runtime.session import Session, Witness
from taiyi_fx.recorder.audit import Audit, RankAudit, audit_step
from taiyi_fx.recorder.replay.alone import MeetsOthers, are_several_ranks, without_wrapper
from taiyi_fx.recorder.replay.bad_step import save_bad_step
from taiyi_fx.recorder.replay.band import OF_ALERTS, OF_SUSPECTS, Band
from taiyi_fx.recorder.replay.calls import Call
from taiyi_fx.recorder.replay.function_rerun import Unread
from taiyi_fx.recorder.replay.iterators import CannotRepeat
from taiyi_fx.recorder.replay.keeper import StepKeeper
from taiyi_fx.recorder.replay.kept_step import KeptStep
from taiyi_fx.recorder.replay.plain import CannotSave
from taiyi_fx.recorder.replay.replayer import CannotReplay, replay_step
from taiyi_fx.recorder.replay.rerun import Ways
from taiyi_fx.recorder.replay.result import Replay
from taiyi_fx.recorder.replay.retention import CannotKeep
from taiyi_fx.recorder.replay.step_function import StepCall, StepFunction, StepFunctionFailed
from taiyi_fx.recorder.suspects import suspect_steps
from taiyi_fx.warning import WarnOnce, warn
from taiyi_fx.writers.folder import folder_of_rank

FILE = "bad-step.safetensors"
"""The file that the first bad step of a training is kept in."""


@dataclass(frozen=True)
class KeepingOptions:
    """The wishes of how steps are kept.

    Attributes:
        every: A state is kept every so many steps; None keeps one where an audit is due alone.
        limit: The most bytes that states and batches may take.
        folder: A folder for the states, which are kept in memory otherwise.
        reach: So many steps back one can still be run again.
        most: The most steps that are run again; after so many a training is known to be broken.
        most_suspects: Of these, the most that are no alert's.
    """

    every: int | None
    limit: int = 8 * 2**30
    folder: str | os.PathLike[str] | None = None
    reach: int = 40
    most: int = 3
    most_suspects: int = 2


@dataclass(frozen=True)
class Training:
    """The training that steps are kept of.

    Attributes:
        session: Runs the model's forwards.
        optimizers: Gives the optimizers.
        next_step: Gives the step that the next forward belongs to; None while nothing is read.
        is_strict: True to raise what goes wrong.
    """

    session: Session
    optimizers: Callable[[], Sequence[Optimizer]]
    next_step: Callable[[], int | None]
    is_strict: bool = False


class Replays:
    """Keeps the last steps of a training, and runs them again.

    Whatever fails here is warned of once, and the training goes on without.

    Args:
        training: The training.
        options: The wishes.
        folder: The folder of the run, which bad steps are written to; None if there is none.

    Attributes:
        found: The replays so far.
        audits: The audits so far.
    """

    def __init__(
        self, training: Training, options: KeepingOptions, folder: Path | None = None
    ) -> None:
        self.found: list[Replay] = []
        self.audits: list[Audit] = []
        self.audit_every: int | None = None
        self._training, self._options, self._folder = training, options, folder
        self._model = training.session.installation.root
        self._keeper = StepKeeper(
            self._model,
            training.optimizers,
            boundary=self._boundary,
            every=options.every,
            also=self._is_audited,
            limit=options.limit,
            folder=options.folder,
            reach=options.reach,
        )
        self._ranks = RankAudit(self._model)
        self._replayed: set[int] = set()
        self._suspects = 0
        self._broken_since: int | None = None
        self._is_running_function = False
        self._why_ended = ""
        self._warn = WarnOnce()
        training.session.witness = self

    def begin(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], is_compiled: bool
    ) -> Call | None:
        """Notes a call of the model that begins."""
        step = self._training.next_step()
        if step is None:
            return None
        with self._boundary("keeping the state of a step"):
            return self._keeper.begin_call(step, args, kwargs, is_compiled=is_compiled)
        return None

    def end(self, token: Call | None, value: Any) -> None:
        """Notes the output of a call."""
        if token is not None:
            with self._boundary("keeping the output of a call"):
                self._keeper.end_call(token, value)

    @contextmanager
    def stepping(
        self, function: StepFunction, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Iterator[Callable[[Any], None]]:
        """In the body a function of the user's runs a step; gives what takes its value."""
        token = None
        step = self._training.next_step() if self._is_outermost else None
        if step is not None:
            with self._boundary(f"keeping a call of {function.name}"):
                token = self._keeper.begin_function(step, function, args, kwargs)
        if token is None:
            yield lambda value: None
            return
        self._keeper.is_in_function = True
        try:
            yield functools.partial(self._end_function, token)
        finally:
            self._keeper.is_in_function = False

    def _end_function(self, token: StepCall, value: Any) -> None:
        with self._boundary(f"keeping a call of {token.function.name}"):
            token.end(value)

    @property
    def is_running_function(self) -> bool:
        """True while a function of the user's runs again."""
        return self._is_running_function

    def track(self, step: int, scaler: torch.amp.GradScaler | None = None) -> None:
        """Ends a step."""
        if scaler is not None:
            self._keeper.scaler = scaler
        with self._boundary("keeping a step"):
            self._keeper.track(step)

    def audit(self, step: int) -> Audit | None:
        """Audits a step that was tracked, if that is due; warns of what is not equal."""
        if not self._is_audited(step):
            return None
        made: list[Audit] = []
        with self._boundary(f"the audit of step {step}"):
            kept = self._keeper.steps[-1] if self._keeper.steps else None
            if kept is not None and kept.step == step and kept.checkpoint is not None:
                made += self._audited(kept)
            if self._ranks.is_possible:
                made.append(self._ranks.audit(step))
        self.audits += made
        other = [one for one in made if not one.is_equal]
        for one in other:
            warn(f"audit of step {step}: {one.text}")
        return other[0] if other else None

    def _audited(self, kept: KeptStep) -> list[Audit]:
        optimizers = self._training.optimizers()
        try:
            return [audit_step(kept, self._model, self._ways(None), optimizers)]
        except MeetsOthers as meeting:
            why = (
                f"the model waits for other ranks ({meeting}), and a rank runs a step again alone; "
                "the parameters of ranks are compared all the same"
            )
        except CannotRepeat as error:
            why = str(error)
        self._warn.of("audit", f"step {kept.step} is not run twice: {why}")
        return []

    def after(self, findings: Sequence[Finding], *, is_just_tracked: bool = True) -> list[Replay]:
        """Runs steps that went wrong again, those of alerts, and suspects; returns what was found.

        A NaN is seen here at once, as the watch looks at the numbers of a training now and then.
        One of the steps that are run again is left to an alert or a NaN that is still to come.

        Args:
            findings: The new findings.
            is_just_tracked: True if the model's gradients are still those of the last step.
        """
        bad = self._bad_steps()
        alerts = {one.step for one in findings if one.severity == "alert"}
        if self._broken_since is not None:  # what goes wrong after a NaN follows from it
            alerts = {step for step in alerts if step <= self._broken_since}
        broken = sorted((alerts | bad) - self._replayed)[: self._left]
        self._replayed.update(broken)
        suspects = sorted(suspect_steps(findings) - self._replayed)[: self._left_to_suspects]
        self._replayed.update(suspects)
        self._suspects += len(suspects)
        bands = {step: None if step in bad else OF_ALERTS for step in broken}
        bands |= dict.fromkeys(suspects, OF_SUSPECTS)
        made: list[Replay] = []
        for step, band in bands.items():
            for one in self._replays_of(step, band=band, is_just_tracked=is_just_tracked):
                # An alert may be of what no operation brought; of a suspect, the batch is news.
                if one.operation or band is not OF_ALERTS:
                    why = ", as it stood out" if band is OF_SUSPECTS else ""
                    warn(f"a step was run again{why}\n{one}")
                    made.append(one)
                    self.found.append(one)
        return made

    @property
    def _left(self) -> int:
        """The number of steps that may still be run again."""
        return max(0, self._options.most - len(self._replayed))

    @property
    def _left_to_suspects(self) -> int:
        if are_several_ranks():  # a spike is told some steps later, and a rank keeps the last alone
            return 0
        return max(0, min(self._options.most_suspects - self._suspects, self._left - 1))

    def replay(
        self, step: int, *, band: Band | None = None, is_just_tracked: bool = False
    ) -> Replay:
        """Runs a step that is kept again, and keeps it in a file, if there is a folder for it.

        Args:
            step: The step.
            band: Where nothing is NaN or Inf, look for numbers that left this band.
            is_just_tracked: True if the model's gradients are still those of the last step.

        Raises:
            CannotReplay: It is not kept, or no state before it is finite.
        """
        if self._why_ended:
            raise CannotReplay(f"no step is kept: {self._why_ended}")
        run = functools.partial(self._run_again, step, band=band, is_live=is_just_tracked)
        try:
            found, steps = run(self._unread_by)
        except StepFunctionFailed as error:
            self._warn.of("function", f"{error}; step {step} is run again without its function")
            found, steps = run(None)
            found = replace(found, note="; ".join(filter(None, [found.note, str(error)])))
        file = self._file(found.step)
        if file is None:
            return found
        try:
            save_bad_step(
                file,
                found,
                steps,
                self._model,
                self._training.optimizers(),
                self._keeper.initial,
                band,
            )
        except (CannotSave, TypeError, OSError) as error:
            self._warn.of("saving", f"step {found.step} is not kept in a file: {error}")
            return found
        return replace(found, saved=str(file))

    def _run_again(
        self, step: int, unread: Unread | None, *, band: Band | None, is_live: bool
    ) -> tuple[Replay, Sequence[KeptStep]]:
        return replay_step(
            step,
            [*self._keeper.steps],
            self._model,
            self._ways(unread),
            self._training.optimizers(),
            is_live=is_live,
            band=band,
        )

    def _ways(self, unread: Unread | None) -> Ways:
        session = self._training.session
        return Ways(session.unread, session.unread_compiled, unread)

    @contextmanager
    def _unread_by(self, witness: Witness) -> Iterator[None]:
        self._is_running_function = True
        try:
            session = self._training.session
            with without_wrapper(self._keeper.wrapper, self._model), session.unread_by(witness):
                yield
        finally:
            self._is_running_function = False

    @property
    def _is_outermost(self) -> bool:
        """True if a function that begins is within none that is known."""
        training = self._training.session.run.is_training(self._model)
        return training and not self._keeper.is_in_function and not self._is_running_function

    def clear(self) -> None:
        """Drops all steps, as another training begins."""
        self._keeper.clear()
        self._replayed.clear()
        self._suspects = 0

    def close(self) -> None:
        """Ends keeping; the replays stay."""
        self._why_ended = self._why_ended or "the monitor was closed"
        self._keeper.close()
        self._training.session.witness = None

    def _bad_steps(self) -> set[int]:
        """The steps with a NaN that are kept; of those that follow one another, the first."""
        may_overflow = self._keeper.scaler is not None and self._keeper.scaler.is_enabled()
        bad = [one.step for one in self._keeper.steps if one.is_bad(may_overflow=may_overflow)]
        is_new = self._broken_since is None
        if not bad:
            self._broken_since = None
        elif is_new:
            self._broken_since = bad[0]
        return {bad[0]} if bad and is_new else set()

    def _is_audited(self, step: int) -> bool:
        return self.audit_every is not None and step % self.audit_every == 0

    def _replays_of(self, step: int, **how: Any) -> list[Replay]:
        with self._boundary(f"running step {step} again"):
            try:
                return [self.replay(step, **how)]
            except CannotReplay as error:
                self._warn.of("replay", f"step {step} was not run again: {error}")
        return []

    def _file(self, step: int) -> Path | None:
        if self._folder is None:
            return None
        folder = folder_of_rank(self._folder, dist.get_rank() if dist.is_initialized() else 0)
        return folder / (f"bad-step-{step}.safetensors" if self.found else FILE)

    @contextmanager
    def _boundary(self, what: str) -> Iterator[None]:
        """Ends keeping where the body fails, with a warning; raises, if strict."""
        try:
            yield
        except Exception as error:
            if self._training.is_strict:
                raise
            self.close()
            why = f"{what} failed: {type(error).__name__}: {error}"
            if isinstance(error, CannotKeep):
                why = str(error)
            self._why_ended = why
            self._warn.of("keeping", f"no step will be run again, or audited: {why}")
