"""The recorder of a training: its last steps, kept, and run again at an alert."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, overload

from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.recorder.audit import Audit
from taiyi_fx.recorder.ending import named
from taiyi_fx.recorder.replay.result import Replay
from taiyi_fx.recorder.replays import KeepingOptions, Replays
from taiyi_fx.recorder.ring import Ring
from taiyi_fx.recorder.stepping import stepping
from taiyi_fx.recorder.training_recorder import TrainingRecorder
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
        self._training: TrainingRecorder | None = None
        if checkpoint_every is not None:
            checkpoint_every = at_least_one("checkpoint_every", checkpoint_every)
        limit = at_least_one("checkpoint_bytes", checkpoint_bytes)
        reach = at_least_one("checkpoint_reach", checkpoint_reach)
        self._keeping = KeepingOptions(checkpoint_every, limit, checkpoint_folder, reach)
        self._audit_every: int | None = None

    @property
    def last(self) -> Recording | None:
        """The last recording that was made; None before the first."""
        return None if self._training is None else self._training.last

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
        if self._training is None:
            raise RuntimeError(
                "nothing is recorded: give this recorder to instrument, as recorder="
            )
        return self._training.dump("dump() was called", None if path is None else Path(path))

    @property
    def replays(self) -> list[Replay]:
        """The steps that were run again, in order."""
        replays = self._kept
        return [] if replays is None else replays.found

    @property
    def audits(self) -> list[Audit]:
        """The audits so far, in order."""
        replays = self._kept
        return [] if replays is None else replays.audits

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
        if self._training is not None:
            self._training.audit(self._audit_every)

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
        return stepping(lambda: self._kept, function, reference, batch)

    @property
    def is_replaying(self) -> bool:
        """True while a function given to `step` runs again."""
        return self._kept is not None and self._kept.is_running_function

    def replay(self, step: int) -> Replay:
        """Runs a step that is kept again, now.

        Raises:
            RuntimeError: No training is recorded, or none of its steps.
            CannotReplay: The step is not kept, or no state before it is finite.
        """
        if self._kept is None:
            raise RuntimeError(
                "no steps are kept: give instrument a Recorder(checkpoint_every=1) as recorder="
            )
        found = self._kept.replay(step)
        self._kept.found.append(found)
        return found

    def begin(self, table: SlotTable, *, strict: bool = False) -> TrainingRecorder:
        """Begins to record a model, as `instrument` has it.

        Raises:
            ValueError: It records another training already.
        """
        if self._training is not None:
            raise ValueError("this recorder records another training: make one for each")
        ring = Ring(table, self._steps, self._every, strict=strict)
        self._training = TrainingRecorder(ring, self._keeping, self.folder, self._audit_every)
        return self._training

    @property
    def _kept(self) -> Replays | None:
        """The steps that are kept, if some are."""
        return None if self._training is None else self._training.replays

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and self._training is not None:
            self._training.write(named(error))


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
