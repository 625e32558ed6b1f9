"""The steps that are kept: how many, how far back, and in how much memory."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence

from taiyi_fx.recorder.replay.kept_step import KeptStep
from taiyi_fx.recorder.replay.memory import CheckpointMemory

DEVICE_BYTES = 256 * 2**20
"""The most that batches and gradients of steps further back may take on an accelerator."""


class CannotKeep(Exception):
    """Steps of this training cannot be kept; the message says why."""


class Retention:
    """Keeps steps, and drops them again.

    The last two states stay, with all steps since: a fault of an optimizer's step shows in the step
    after it, and numbers of a device come late. Of the states before, one stays each `reach` steps,
    as a finding of sizes comes some time after its step; the steps since are reached from there, by
    running those between again. These go first where memory is short.

    Args:
        memory: Takes the memory of states that are dropped.
        limit: The most bytes that all of it may take.
        reach: So many steps back one can still be run again.

    Attributes:
        steps: The steps, oldest first.
    """

    def __init__(self, memory: CheckpointMemory, limit: int, reach: int) -> None:
        self.steps: deque[KeptStep] = deque()
        self._memory, self._limit, self._reach = memory, limit, reach

    def since_state(self) -> list[KeptStep]:
        """The steps from the last state on."""
        kept = [*self.steps]
        last = max((i for i, one in enumerate(kept) if one.checkpoint is not None), default=0)
        return kept[last:]

    def forget(self, step: int, *, reaches_back: bool) -> None:
        """Drops what is no longer needed, where another state is due now.

        Args:
            step: The step of that state.
            reaches_back: True if a step can be reached from a state that lies further back.
        """
        if not reaches_back:
            last = self.since_state()
            while self.steps and self.steps[0] is not last[0]:
                self._release(self.steps.popleft())
            return
        before: KeptStep | None = None
        for one in self._states()[:-1]:
            if before is not None and one.step - before.step < self._reach:
                self._release(one)
            else:
                before = one
        while len(states := self._states()) > 1 and step - states[1].step >= self._reach:
            self._drop_first(states)

    def make_room(self, more: int = 0) -> None:
        """Drops the first steps that need not be kept, where all take too much.

        Args:
            more: The bytes of a state that is to come.

        Raises:
            CannotKeep: The last two states and the steps since take too much by themselves.
        """
        needed = 1 if more else 2
        while len(states := self._states()) > needed and self._is_over(more, states[-needed]):
            self._drop_first(states)
        self.check(more + self._bytes())

    def check(self, size: int) -> None:
        """Refuses a size beyond the limit.

        Raises:
            CannotKeep: It is.
        """
        if size > self._limit:
            raise CannotKeep(
                f"two states of the training and the batches since take {_size(size)}, and "
                f"checkpoint_bytes= allows {_size(self._limit)}"
            )

    def _is_over(self, more: int, needed: KeptStep) -> bool:
        if more + self._bytes() > self._limit:
            return True
        older = itertools.takewhile(lambda kept: kept is not needed, self.steps)
        return sum(kept.device_bytes for kept in older) > DEVICE_BYTES

    def _bytes(self) -> int:
        return sum(kept.bytes for kept in self.steps)

    def _states(self) -> list[KeptStep]:
        return [one for one in self.steps if one.checkpoint is not None]

    def _drop_first(self, states: Sequence[KeptStep]) -> None:
        """Drops the first state, and the steps up to the next one."""
        while self.steps[0] is not states[1]:
            self._release(self.steps.popleft())

    def _release(self, kept: KeptStep) -> None:
        if kept.checkpoint is not None:
            self._memory.give_back(kept.checkpoint.tensors)
            kept.checkpoint = None


def _size(count: int) -> str:
    if count < 2**20:
        return f"{count:,} bytes"
    return f"{count / 2**30:.2f} GiB" if count >= 2**28 else f"{count / 2**20:.1f} MiB"
