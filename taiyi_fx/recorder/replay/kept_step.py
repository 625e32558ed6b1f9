"""A step as it happened, with all that it takes to run it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from taiyi_fx.recorder.replay.calls import Call
from taiyi_fx.recorder.replay.checkpoint import Checkpoint
from taiyi_fx.recorder.replay.flags import NonFiniteFlag
from taiyi_fx.recorder.replay.step_function import StepCall


@dataclass
class KeptStep:
    """A step as it happened.

    Attributes:
        step: Its number.
        checkpoint: The state that it began from, if that was kept.
        values: The plain values that modules hold as it begins, by the modules' names.
        calls: The calls of the model.
        had_gradients: True if parameters had gradients as its first call began: zeros, mostly.
        norms: For each optimizer the norms of the gradients that its step was given.
        settings: The settings of their parameter groups then, such as learning rates.
        is_tracked: True once it was tracked.
        flags: True if an output has a NaN, and if a gradient is not finite, once that is known.
        functions: The calls of the user's own function of a step.
        has_other_calls: True if the model was called outside of that, too.
        ranks: The number of ranks that trained the model; each has its own step.
        batch_bytes: The memory of its batch and gradients, as it was last measured.
        device_bytes: The part of it that is not on the host.
    """

    step: int
    checkpoint: Checkpoint | None
    had_gradients: bool = False
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    norms: dict[int, list[Tensor | None]] = field(default_factory=dict)
    settings: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    is_tracked: bool = False
    flags: tuple[NonFiniteFlag, NonFiniteFlag] | None = None
    functions: list[StepCall] = field(default_factory=list)
    has_other_calls: bool = False
    ranks: int = 1
    batch_bytes: int = 0
    device_bytes: int = 0

    @property
    def is_of_functions(self) -> bool:
        """True if calls of the user's function are all that it is made of."""
        return bool(self.functions) and not self.has_other_calls

    @property
    def has_arguments(self) -> bool:
        """True if the arguments of all calls of the model are kept."""
        return all(call.has_arguments for call in self.calls)

    def is_bad(self, *, may_overflow: bool) -> bool:
        """True if it is known to have gone wrong; with a scaler, by its outputs alone."""
        if self.flags is None:
            return False
        return bool(self.flags[0]) or (not may_overflow and bool(self.flags[1]))

    def measure(self) -> None:
        """Measures the memory that its batch and gradients keep, once they are complete."""
        tensors = {x for one in (*self.calls, *self.functions) for x in one.tensors()}
        self.batch_bytes = sum(x.nbytes for x in tensors)
        self.device_bytes = sum(x.nbytes for x in tensors if x.device.type != "cpu")

    @property
    def bytes(self) -> int:
        """The memory that it keeps."""
        if not self.is_tracked:
            self.measure()
        return self.batch_bytes + (self.checkpoint.bytes if self.checkpoint else 0)
