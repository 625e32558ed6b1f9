"""The recorder of a training: its last steps, kept, and run again at an alert."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, overload

import torch

from taiyi_fx.findings import Finding
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.recorder.audit import Audit
from taiyi_fx.recorder.dumps import Dumps
from taiyi_fx.recorder.ending import named, tell_no_more, tell_of_end
from taiyi_fx.recorder.peers import Peers
from taiyi_fx.recorder.replay.result import Replay
from taiyi_fx.recorder.replays import KeepingOptions, Replays, Training
from taiyi_fx.recorder.ring import Ring
from taiyi_fx.recorder.stepping import stepping
from taiyi_fx.records.record import Event
from taiyi_fx.runs.recording import Recording
from taiyi_fx.schedule import whole

P = ParamSpec("P")
R = TypeVar("R")


class Recorder:
    """Keeps the last steps of a training, and runs a step that went wrong again.

    Give it to `instrument`, as ``recorder=``; one recorder is for one training. It reads the
    output of every module and its gradient, whatever the configuration asks for: norm, mean,
    largest magnitude, and the number of elements that are not finite, which the first three leave
    out. They stay on the device, and are of all micro-batches of a step together.

    At an alert, at an error that nobody caught, at SIGTERM, or by `dump`, the last steps are
    written into the run, whose page shows them; without a run they are kept as `last`. In a
    ``with`` block they are written at an error that leaves it, too, as a notebook needs it. Where
    one of several ranks writes its own, the others write theirs as they track their next steps.

    Args:
        steps: The number of steps that are kept.
        every: Every so many steps one is recorded.
        checkpoint_every: Keep the state of the training, which a step can be run again from, every
            so many steps: parameters, buffers, the optimizer's state, random states. The last two
            of them are kept, and the batches since, by reference. None keeps none. With 1 each step
            begins from its own state; with more, steps are run again from the state before them.
        checkpoint_bytes: The most bytes that all of it may take, on the host.
        checkpoint_folder: A folder on a fast disk for the states, which take memory otherwise.
        checkpoint_reach: So many steps back a step can still be run again, as an alert of sizes
            comes some steps after its step. For that one or two states more are kept, and the
            batches since, as far as `checkpoint_bytes` has room, and 256 MiB of an accelerator; the
            steps between are run again, too, so that `instrument` has to know the optimizer. With 1
            the last two states are all.

    Attributes:
        folder: The folder of the run, or of its part, as `instrument` tells it; None without one.

    Raises:
        TypeError: A number is not a whole number.
        ValueError: It is below 1.
    """

    def __init__(
        self,
        steps: int = 20,
        every: int = 1,
        *,
        checkpoint_every: int | None = None,
        checkpoint_bytes: int = 8 * 2**30,
        checkpoint_folder: str | os.PathLike[str] | None = None,
        checkpoint_reach: int = 40,
    ) -> None:
        self._steps, self._every = at_least_one("steps", steps), at_least_one("every", every)
        self.folder: Path | None = None
        self._ring: Ring | None = None
        self._dumps: Dumps | None = None
        self._has_begun = False
        self._peers = Peers()
        if checkpoint_every is not None:
            checkpoint_every = at_least_one("checkpoint_every", checkpoint_every)
        limit = at_least_one("checkpoint_bytes", checkpoint_bytes)
        reach = at_least_one("checkpoint_reach", checkpoint_reach)
        self._keeping = KeepingOptions(checkpoint_every, limit, checkpoint_folder, reach)
        self._replays: Replays | None = None
        self._audit_every: int | None = None

    @property
    def last(self) -> Recording | None:
        """The last recording that was made; None before the first."""
        return None if self._dumps is None else self._dumps.last

    def dump(self, path: str | os.PathLike[str] | None = None) -> Recording:
        """Makes a recording of the last steps, now.

        It is written to a path, if one is given, and else into the run. Without a run it is kept as
        `last` alone.

        Args:
            path: A file to write it to, as JSON.

        Raises:
            RuntimeError: No training is recorded.
            OSError: The file cannot be written.
        """
        if self._dumps is None:
            raise RuntimeError(
                "nothing is recorded: give this recorder to instrument, as recorder="
            )
        reason = "dump() was called"
        made = self._dumps.dump(reason, None if path is None else Path(path))
        if path is None:
            self._tell(made, reason)
        return made

    @property
    def replays(self) -> list[Replay]:
        """The steps that were run again, in order."""
        return [] if self._replays is None else self._replays.found

    @property
    def audits(self) -> list[Audit]:
        """The audits so far, in order."""
        return [] if self._replays is None else self._replays.audits

    def audit(self, *, every: int = 1000) -> None:
        """Has a step run twice and its bits compared, every so many steps.

        Where there are several ranks, the parameters that they all hold are compared as well. What
        is not equal is warned of, and an event of the run.

        Args:
            every: The number of steps from one audit to the next.

        Raises:
            TypeError: It is not a whole number.
            ValueError: It is below 1.
        """
        self._audit_every = at_least_one("every", every)
        if self._replays is not None:
            self._replays.audit_every = self._audit_every

    @overload
    def step(self, function: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def step(
        self,
        function: None = None,
        /,
        *,
        reference: Callable[[Any], Any],
        batch: Callable[[Any], Any],
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def step(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        reference: Callable[[Any], Any] | None = None,
        batch: Callable[[Any], Any] | None = None,
    ) -> Callable[..., Any]:
        """A decorator: the function runs a step, or a micro-batch of one, and can do it again.

        A step is then run again as this function has it, with its loss, so that an operation of the
        loss is named, too. It may run forward, loss and backward, or leave backward to its caller.
        Where it tracks the step, or steps the optimizer, running again ends.

        Without `reference` the function's arguments are kept as they are. With it, what it gives is
        kept in place of the batch, which `batch` makes anew.

        Args:
            function: The function; its arguments are kept, so what it takes from elsewhere is as it
                is by then.
            reference: Gives a reference to the function's first argument, such as the indices of
                its samples.
            batch: Gives the first argument anew from such a reference, with the same bits.

        Raises:
            TypeError: One of them is not callable, or `reference` comes without `batch`.
            ValueError: No steps are kept.
        """
        if self._keeping.every is None:
            raise ValueError(
                "recorder.step is for steps that are run again, and none are kept: give "
                "Recorder a checkpoint_every=, such as 1"
            )
        return stepping(lambda: self._replays, function, reference, batch)

    @property
    def is_replaying(self) -> bool:
        """True while a function given to `step` runs again."""
        return self._replays is not None and self._replays.is_running_function

    def replay(self, step: int) -> Replay:
        """Runs a step that is kept again, now.

        Raises:
            RuntimeError: No training is recorded, or none of its steps.
            CannotReplay: The step is not kept, or no state before it is finite.
        """
        if self._replays is None:
            raise RuntimeError(
                "no steps are kept: give instrument a Recorder(checkpoint_every=1) as recorder="
            )
        found = self._replays.replay(step)
        self._replays.found.append(found)
        return found

    def reads(self, table: SlotTable, *, strict: bool = False) -> Ring:
        """The readings that it takes of a model, which it begins to record.

        Raises:
            ValueError: It records another training already.
        """
        if self._ring is not None:
            raise ValueError("this recorder records another training: make one for each")
        self._ring = Ring(table, self._steps, self._every, strict=strict)
        return self._ring

    def attach(self, training: Training) -> None:
        """Begins with a training, as `instrument` has it."""
        assert self._ring is not None
        self._dumps = Dumps(self._ring, self.folder)
        tell_of_end(self)
        if self._keeping.every is not None or self._audit_every is not None:
            self._replays = Replays(training, self._keeping, self.folder)
            self._replays.audit_every = self._audit_every

    def track(self, step: int, scaler: torch.amp.GradScaler | None) -> None:
        """Ends a step, before its statistics are taken and its numbers are looked at."""
        if self._dumps is not None and not self._has_begun:
            self._has_begun = True
            self._dumps.drop_from(step)
        self._follow_others()
        if self._replays is not None:
            self._replays.track(step, scaler)

    def after(self, step: int, findings: Sequence[Finding]) -> list[Event]:
        """Writes the last steps at alerts, runs theirs again, and audits; gives events of it."""
        is_written = self.found(findings)
        if self._replays is None:
            return []
        audit = self._replays.audit(step)
        events = [] if audit is None else [Event(step, "finding", "", f"audit: {audit.text}")]
        for one in self._replays.after(findings):
            text = f"run again: {one}"
            events.append(Event(step, "finding", one.module, text))
            if not is_written:  # as on a rank that does not record, where nobody looks for findings
                self._write(f"step {one.step} was run again, as it went wrong")
                is_written = True
        return events

    def found(self, findings: Sequence[Finding]) -> bool:
        """Writes the last steps, if an alert is among new findings; true if there is one."""
        alerts = [one for one in findings if one.severity == "alert"]
        if alerts:
            self._write(str(alerts[0]))
        return bool(alerts)

    def ends(self, why: str) -> None:
        """Writes the last steps, as the process ends, and asks nothing of other ranks."""
        if self._dumps is not None:
            self._dumps.dump_of_itself(why)

    def _write(self, why: str) -> None:
        """Writes the last steps, and has other ranks write theirs."""
        if self._dumps is not None:
            self._tell(self._dumps.dump_of_itself(why), why)

    def _tell(self, made: Recording | None, why: str) -> None:
        """Tells other ranks of a recording, so that they write theirs."""
        if made is not None and made.step is not None:
            self._peers.tell(made.step, why)

    def _follow_others(self, *, at_once: bool = False) -> None:
        """Writes the last steps where another rank has, and this one not since."""
        for told in self._peers.told(at_once=at_once):
            last = None if self.last is None else self.last.step
            if self._dumps is not None and (last is None or last < told.step):
                self._dumps.dump_of_itself(f"rank {told.rank}: {told.reason}", is_quiet=True)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._write(named(error))

    def clear(self) -> None:
        """Drops the steps that are kept."""
        if self._ring is not None:
            self._ring.clear()
        if self._replays is not None:
            self._replays.clear()

    def close(self) -> None:
        """Ends recording; the last recording, replays and audits stay."""
        self._follow_others(at_once=True)
        tell_no_more(self)
        if self._replays is not None:
            self._replays.close()


def check_recorder(given: object) -> Recorder:
    """A recorder as it was given.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(given, Recorder):
        raise TypeError(f"recorder is a taiyi_fx.Recorder, such as Recorder(), not {given!r}")
    return given


def at_least_one(name: str, number: int) -> int:
    """A whole number above 0.

    Raises:
        TypeError: It is not a whole number.
        ValueError: It is below 1.
    """
    number = whole(name, number)
    if number < 1:
        raise ValueError(f"{name} is a whole number of at least 1, not {number}")
    return number
