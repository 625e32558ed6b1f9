"""A step that was run again: its gradients, the operation it went wrong at, and differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from taiyi_fx.passes.structure import tensors_in
from taiyi_fx.recorder.replay.band import Size
from taiyi_fx.recorder.replay.calls import Call, Prints, as_numbers, prints_of
from taiyi_fx.recorder.replay.checkpoint import Checkpoint
from taiyi_fx.recorder.replay.facts import TensorFacts, facts_of
from taiyi_fx.recorder.replay.watched import Origin


@dataclass
class Ran:
    """A step that was run again.

    Attributes:
        step: The step.
        gradients: The gradients of the parameters, by name.
        origin: The operation that it went wrong at, if one was found.
        differences: The differences from the step as it happened, in words.
        notes: The reasons for differences, and what else is to be known.
        outputs: The fingerprints of what the calls returned.
        returned: The facts about what the calls of the model returned.
        sizes: The sizes of all operations' numbers, if they were taken.
        is_complete: False if it ends before its backward has.
        is_one_by_one: True if compiled code ran then, and its operations one by one now.
        factor: The factor that gradients were multiplied by between backward and the optimizer's
            step.
        began: The state that it began from; of the last step that ran alone.
    """

    step: int
    gradients: dict[str, Tensor | None] = field(default_factory=dict)
    origin: Origin | None = None
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    outputs: list[Prints] = field(default_factory=list)
    returned: list[TensorFacts] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)
    is_complete: bool = True
    is_one_by_one: bool = False
    factor: float = 1.0
    began: Checkpoint | None = None

    @property
    def reasons(self) -> list[str]:
        """The notes, with the reason for differences that compiled code is."""
        if self.differences and self.is_one_by_one:
            return [*self.notes, "compiled code ran then, and its operations one by one now"]
        return self.notes

    def compare(self, call: Call, value: Any) -> None:
        """Compares the output of a call with that of then."""
        self.outputs.append(prints_of(value))
        self.returned += map(facts_of, tensors_in(value))
        if self.outputs[-1] != tuple(map(as_numbers, call.outputs)):
            self.differences.append("an output has other bits than it had then")
            if call.was_changed:
                what = "an argument of the model was changed in place since it was called"
                self.notes.append(what)


def run_replayed(body: Callable[[], Any]) -> Any:
    """Runs a part of a step; lines outside of it are not the user's."""
    return body()
