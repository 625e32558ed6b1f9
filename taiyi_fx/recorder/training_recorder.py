"""The recorder of one training: its ring and its kept steps, as the training goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from taiyi_fx.findings import Finding, MadeBy
from taiyi_fx.recorder.dumps import Dumps
from taiyi_fx.recorder.ending import tell_no_more, tell_of_end
from taiyi_fx.recorder.peers import Peers
from taiyi_fx.recorder.replay.result import Replay
from taiyi_fx.recorder.replays import KeepingOptions, Replays, Training
from taiyi_fx.recorder.ring import Ring
from taiyi_fx.records.record import Event
from taiyi_fx.runs.recording import Recording


class TrainingRecorder:
    """Records one training, which tells it of its steps: a `Recorder` is what the user has.

    Args:
        ring: The ring of the last steps.
        keeping: The wishes of how steps are kept.
        folder: The folder of the run, or of its part; None without one.
        audit_every: The number of steps from one audit to the next; None audits none.

    Attributes:
        ring: The ring.
        replays: The steps that are kept, once the training has begun, if some are to be.
    """

    def __init__(
        self, ring: Ring, keeping: KeepingOptions, folder: Path | None, audit_every: int | None
    ) -> None:
        self.ring = ring
        self.replays: Replays | None = None
        self._keeping, self._folder, self._audit_every = keeping, folder, audit_every
        self._training: Training | None = None
        self._dumps = Dumps(ring, folder)
        self._has_begun = False
        self._peers = Peers()

    @property
    def last(self) -> Recording | None:
        """The last recording that was made; None before the first."""
        return self._dumps.last

    def dump(self, reason: str, path: Path | None = None) -> Recording:
        """Makes a recording, writes it to a path, else into the run, and tells other ranks then.

        Raises:
            OSError: The file cannot be written.
        """
        made = self._dumps.dump(reason, path)
        if path is None:
            self._tell(made, reason)
        return made

    def attach(self, training: Training) -> None:
        """Begins with a training, as `instrument` has it."""
        tell_of_end(self)
        self._training = training
        if self._keeping.every is not None:
            self._keep(training)
        if self._audit_every is not None:
            self.audit(self._audit_every)

    def audit(self, every: int) -> None:
        """Has a step audited every so many steps, from the next one on."""
        self._audit_every = every
        if self._training is not None:
            self._keep(self._training).audit_every = every

    def _keep(self, training: Training) -> Replays:
        if self.replays is None:
            self.replays = Replays(training, self._keeping, self._folder)
        return self.replays

    def track(self, step: int, scaler: torch.amp.GradScaler | None) -> None:
        """Ends a step, before its statistics are taken and its numbers are looked at."""
        if not self._has_begun:
            self._has_begun = True
            self._dumps.drop_from(step)
        self._follow_others()
        if self.replays is not None:
            self.replays.track(step, scaler)

    def after(self, step: int, findings: Sequence[Finding]) -> list[Event]:
        """Writes the last steps at alerts, runs theirs again, and audits; gives events of it."""
        is_written = self.found(findings)
        if self.replays is None:
            return []
        audit = self.replays.audit(step)
        events = [] if audit is None else [Event(step, "finding", "", f"audit: {audit.text}")]
        for one in self.replays.after(findings):
            events.append(_run_again(step, one))
            if not is_written:  # as on a rank that does not record, where nobody looks for findings
                self.write(f"step {one.step} was run again")
                is_written = True
        return events

    def at_end(self, findings: Sequence[Finding], *, runs_again: bool) -> list[Event]:
        """The same of what is found as training is over, without audits.

        Args:
            findings: The new findings.
            runs_again: True to run the steps of alerts again.
        """
        self.found(findings)
        if self.replays is None or not runs_again:
            return []
        made = self.replays.after(findings, is_just_tracked=False)
        return [_run_again(one.step, one) for one in made]

    @property
    def made_by(self) -> dict[int, MadeBy]:
        """The operations that made a NaN or Inf, of steps that ran again as they had before."""
        found = () if self.replays is None else self.replays.found
        return {
            one.step: MadeBy(
                one.operation, one.module, one.phase, f"{Path(one.file).name}:{one.line}"
            )
            for one in found
            if one.is_exact and one.file and not all(x.is_finite for x in one.outputs)
        }

    def found(self, findings: Sequence[Finding]) -> bool:
        """Writes the last steps, if an alert is among new findings; true if there is one."""
        alerts = [one for one in findings if one.severity == "alert"]
        if alerts:
            self.write(str(alerts[0]))
        return bool(alerts)

    def ends(self, why: str) -> None:
        """Writes the last steps, as the process ends, and asks nothing of other ranks."""
        self._dumps.dump_of_itself(why)

    def write(self, why: str) -> None:
        """Writes the last steps, and has other ranks write theirs."""
        self._tell(self._dumps.dump_of_itself(why), why)

    def _tell(self, made: Recording | None, why: str) -> None:
        """Tells other ranks of a recording, so that they write theirs."""
        if made is not None and made.step is not None:
            self._peers.tell(made.step, why)

    def _follow_others(self, *, at_once: bool = False) -> None:
        """Writes the last steps where another rank has, and this one not since."""
        for told in self._peers.told(at_once=at_once):
            last = None if self.last is None else self.last.step
            if last is None or last < told.step:
                self._dumps.dump_of_itself(f"rank {told.rank}: {told.reason}", is_quiet=True)

    def clear(self) -> None:
        """Drops the steps that are kept."""
        self.ring.clear()
        if self.replays is not None:
            self.replays.clear()

    def close(self) -> None:
        """Ends recording; the last recording, replays and audits stay."""
        self._follow_others(at_once=True)
        tell_no_more(self)
        if self.replays is not None:
            self.replays.close()


def _run_again(step: int, one: Replay) -> Event:
    return Event(step, "finding", one.module, f"run again: {one}")
