"""Numbers that a step was given from outside, and that are far larger than in the steps before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from taiyi_fx.passes.structure import tensors_in
from taiyi_fx.recorder.replay.band import size_of
from taiyi_fx.recorder.replay.facts import TensorFacts, facts_of
from taiyi_fx.recorder.replay.kept_step import KeptStep
from taiyi_fx.recorder.replay.places import Phase
from taiyi_fx.recorder.replay.result import REACHED


@dataclass(frozen=True)
class Given:
    """A tensor that a step was given, and that is larger than usual.

    Attributes:
        name: Its name: ``"argument 0 of the model"``.
        facts: The facts about it.
        factor: Its size, as a multiple of the largest in the steps before.
        phase: The phase that took it.
    """

    name: str
    facts: TensorFacts
    factor: float
    phase: Phase


def grown_from_outside(
    steps: Sequence[KeptStep], factor: float, *, are_outputs_usual: bool
) -> Given | None:
    """The first argument of a step that is larger than in all steps before; else a gradient.

    Args:
        steps: The step, and before it those that it is compared with.
        factor: So many times as large as there is larger.
        are_outputs_usual: False if the model's outputs are larger, too: gradients follow them.
    """
    kinds: list[tuple[Phase, Any]] = [("forward", _arguments)]
    if are_outputs_usual and not steps[-1].is_of_functions:
        kinds.append(("backward", _gradients))
    for phase, given in kinds:
        *before, now = (_largest(given(one)) for one in steps)
        for name, facts in now.items():
            usual = max((size_of(one[name]) for one in before if name in one), default=0.0)
            if usual and size_of(facts) > factor * usual:
                return Given(name, facts, size_of(facts) / usual, phase)
    return None


def _largest(given: Iterator[tuple[str, Tensor]]) -> dict[str, TensorFacts]:
    """The facts about the largest tensor of each name: a step may have several calls."""
    found: dict[str, TensorFacts] = {}
    for name, x in given:
        facts = facts_of(x)
        if name not in found or size_of(facts) > size_of(found[name]):
            found[name] = facts
    return found


def _arguments(kept: KeptStep) -> Iterator[tuple[str, Tensor]]:
    """The numbers among arguments, of functions first; whole ones are words, and have no size."""
    for call in kept.functions if kept.is_of_functions else ():
        args = call.args if call.function.reference is None else (None, *call.args[1:])
        yield from _named(args, call.kwargs, call.function.name)
    for call in kept.calls:
        yield from _named(call.args, call.kwargs, "the model")


def _named(args: Sequence[Any], kwargs: Mapping[str, Any], of: str) -> Iterator[tuple[str, Tensor]]:
    named = [*((f"argument {i}", a) for i, a in enumerate(args)), *kwargs.items()]
    for name, value in named:
        numbers = (x for x in tensors_in(value) if x.is_floating_point())
        yield from ((f"{name} of {of}", x) for x in numbers)


def _gradients(kept: KeptStep) -> Iterator[tuple[str, Tensor]]:
    for call in kept.calls:
        yield from ((f"{REACHED} {i} of the model", x) for i, x in call.gradients.items())
