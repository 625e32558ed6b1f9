"""The result of a replay: the first operation that went wrong, with its place and its tensors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from taiyi_fx.recorder.replay.facts import TensorFacts
from taiyi_fx.recorder.replay.places import Phase

REACHED = "the gradient that reached output"
"""Begins the operation of a replay whose model was given a gradient that was not finite."""


@dataclass(frozen=True)
class Replay:
    """A step that was run again, and the operation that it went wrong at.

    Attributes:
        step: The step.
        module: The module that the operation belongs to; ``""`` for the model's own forward.
        operation: The operation, as torch's library names it; in backward, autograd's node comes
            first: ``"SqrtBackward0: div"``. Empty if no operation of the replay went wrong.
        file: The file of the line that called it, in your code or a library's; in backward, of the
            line in the forward. Of torch's own module or optimizer, where nothing else called it.
        line: The line.
        phase: ``"forward"``, ``"backward"`` or ``"optimizer"``.
        inputs: The facts about the tensors that it took.
        outputs: The facts about those it gave or changed.
        is_exact: True if the step ran as it had before, bit for bit.
        function: The function that the line is in.
        stack: All lines of your code that led there, outermost first.
        note: The reason why it is not exact, or what else is to be known; may be empty.
        saved: The file that the step is kept in; empty if it is not.
        is_outside: True if it ran outside of the model, in a function given to `Recorder.step`.
    """

    step: int
    module: str
    operation: str
    file: str
    line: int
    phase: Phase
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    is_exact: bool
    function: str = ""
    stack: tuple[str, ...] = ()
    note: str = ""
    saved: str = ""
    is_outside: bool = False

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        return asdict(self)

    @classmethod
    def of_dict(cls, given: dict[str, Any]) -> Replay:
        """A replay from such values."""
        facts = {name: tuple(_facts(one) for one in given[name]) for name in ("inputs", "outputs")}
        return cls(**{**given, **facts, "stack": tuple(given["stack"])})

    def __str__(self) -> str:
        phase = f", {self.phase}" if self.operation else ""
        lines = [f"step {self.step}{phase}: {self._operation()}"]
        if self.file:
            lines.append(
                f"  at {self.file}:{self.line}" + (f" in {self.function}" if self.function else "")
            )
        lines += [f"  took {x}" for x in self.inputs]
        lines += [f"  {'was' if self._is_from_outside else 'gave'} {x}" for x in self.outputs]
        lines += [f"  {line}" for line in self._lead()]
        lines.append(f"  {self._proof()}")
        return "\n".join(lines + ([f"  kept in {self.saved}"] if self.saved else []))

    def _lead(self) -> list[str]:
        """A line on the source of what came from outside, if it is known."""
        if self.operation.startswith(REACHED):
            return [
                "the loss made it, or what else follows the model: recorder.step has that run "
                "again, too"
            ]
        if self._is_from_outside and " " not in self.operation:  # a parameter, or a buffer
            return [
                "what ran since the step before made it: the optimizer, of gradients of all ranks "
                "where there are several, or code that sets it"
            ]
        return []

    @property
    def _is_from_outside(self) -> bool:
        return bool(self.operation) and not self.file and not self.inputs

    def _proof(self) -> str:
        if not self.is_exact:
            return f"the step did not run as it had before: {self.note}"
        return "; ".join(filter(None, ["the step ran as it had before, bit for bit", self.note]))

    def _operation(self) -> str:
        if not self.operation:
            return "no operation went wrong"
        if self._is_from_outside:
            is_finite = all(x.is_finite for x in self.outputs)
            how = "far larger than in the steps before" if is_finite else "not finite as it came"
            return f"{self.operation} was {how}"
        if self.is_outside:
            return f"{self.operation}, outside of the model"
        where = f"module {self.module!r}" if self.module else "the model itself"
        return f"{self.operation} of {where}"


def _facts(given: dict[str, Any]) -> TensorFacts:
    return TensorFacts(**{**given, "shape": tuple(given["shape"])})
