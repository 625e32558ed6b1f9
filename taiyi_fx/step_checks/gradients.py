"""The gradient of a step, compared with how its loss does change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from taiyi_fx.findings.finding import Finding
from taiyi_fx.step_checks.backwards import nodes
from taiyi_fx.step_checks.cuts import Cut, WatchingCuts, in_words
from taiyi_fx.step_checks.kinds import CUT_GRADIENT, WRONG_GRADIENT
from taiyi_fx.step_checks.trial import Trial
from taiyi_fx.step_checks.untried import Untried

_STEP = 1e-7
"""A difference of parameters relative to their size: its square and the rounding of float64
divided by it are both far below `_TOLERANCE`."""
_TOLERANCE = 1e-4
_SMALLEST = 1e-2
"""The size that a parameter of zeros is moved by."""
_STRAIGHT = 1e-3
"""The part of a told slope below which a measured one is nothing."""
_RUNS = 120
"""The most runs to find the parameters that a difference belongs to."""


class Slope(NamedTuple):
    """How fast the loss changes in one direction.

    Attributes:
        measured: By differences.
        told: By the gradient.
        size: What the differences are to be compared with.
        is_smooth: Whether measurements by two steps, and on both sides, agree.
    """

    measured: float
    told: float
    size: float
    is_smooth: bool

    @property
    def agrees(self) -> bool:
        """True if the gradient tells what is measured."""
        return abs(self.measured - self.told) <= _TOLERANCE * self.size


def gradient_findings(trial: Trial) -> Iterator[Finding]:
    """Parameters whose gradients are not those of the loss.

    The loss is run at parameters a little larger and a little smaller, in one random direction,
    and its central difference is compared with what the gradient tells. Where they differ, the
    parameters are halved until it is known of which ones.

    Raises:
        Untried: The loss is not in float64, or has jumps.
    """
    if not trial.is_exact:
        raise Untried("it does not run in float64")
    names = [*trial.parameters]
    watching = WatchingCuts()
    loss, _, gradients, _ = trial.run(differentiates=True, within=watching)
    cuts = watching.named()
    slopes = _Slopes(trial, gradients, loss.item())
    wrong = slopes.wrong(names)
    silent = [name for name in wrong if slopes.gradients[name] is None]
    others = [name for name in wrong if slopes.gradients[name] is not None]
    if silent:
        yield _cut(slopes, silent, cuts)
    if others:
        yield _wrong(slopes, others, cuts, _own_functions(loss))
    if not wrong and slopes.has_jumps:
        raise Untried("the loss has jumps")


class _Sides(NamedTuple):
    """The slopes below and above where the parameters are."""

    below: float
    above: float

    @property
    def mean(self) -> float:
        """That of both together."""
        return (self.below + self.above) / 2

    @property
    def difference(self) -> float:
        """How far they are apart."""
        return abs(self.above - self.below)


@dataclass
class _Slopes:
    """Slopes of the loss in a direction of some parameters.

    Attributes:
        trial: The step.
        gradients: Those of its loss, by the names of parameters.
        loss: The loss itself.
        has_jumps: Whether a slope could not be measured.
        runs: How often the step was run.
    """

    trial: Trial
    gradients: Mapping[str, Tensor | None]
    loss: float
    has_jumps: bool = False
    runs: int = 0
    _directions: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        for name, parameter in self.trial.parameters.items():
            size = parameter.detach().square().mean().sqrt().clamp(min=_SMALLEST)
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            self._directions[name] = drawn.to(parameter) * size

    def wrong(self, names: Sequence[str]) -> list[str]:
        """Parameters of which the gradient does not tell what is measured, as far as was looked."""
        if not names or self.runs > _RUNS:
            return []
        slope = self.of(names)
        if not slope.is_smooth:
            self.has_jumps = True
        if slope.agrees or (not slope.is_smooth and len(names) == 1):
            return []
        if len(names) == 1:
            return [*names]
        half = len(names) // 2
        return self.wrong(names[:half]) + self.wrong(names[half:])

    def of(self, names: Sequence[str]) -> Slope:
        """The slope in the direction of some parameters."""
        coarse, fine = (self._sides(names, step) for step in (3 * _STEP, _STEP))
        parts = [
            (gradient * self._directions[name]).sum().item()
            for name in names
            if (gradient := self.gradients[name]) is not None
        ]
        measured = fine.mean
        size = max(abs(measured), sum(map(abs, parts)), abs(self.loss) * _TOLERANCE, 1e-12)
        is_steady = abs(measured - coarse.mean) <= _TOLERANCE * size
        # The sides of a curve come together with the step, and those of a kink do not: a ReLU of
        # exactly zero has two slopes, of which autograd tells one.
        is_curve = fine.difference <= max(_TOLERANCE * size, coarse.difference / 2)
        return Slope(measured, sum(parts), size, is_steady and is_curve)

    def _sides(self, names: Sequence[str], step: float) -> _Sides:
        above, below = self._moved(names, step), self._moved(names, -step)
        return _Sides((self.loss - below) / step, (above - self.loss) / step)

    def _moved(self, names: Sequence[str], by: float) -> float:
        self.runs += 1
        with torch.no_grad():  # the run puts them back
            for name in names:
                self.trial.parameters[name].add_(self._directions[name], alpha=by)
        return self.trial.loss()


def _cut(slopes: _Slopes, names: Sequence[str], cuts: Sequence[Cut]) -> Finding:
    slope = slopes.of(names)
    where = f"; it ends by {in_words(cuts)}" if cuts else ""
    text = (
        f"the loss changes with {_some(names)}, at a rate of {slope.measured:.3g} in a random "
        f"direction, but no gradient gets there{where}"
    )
    return CUT_GRADIENT.of(_module(names[0]), 0.0, text, f"{slope.measured:.3g}")


def _wrong(
    slopes: _Slopes, names: Sequence[str], cuts: Sequence[Cut], functions: Sequence[str]
) -> Finding:
    slope = slopes.of(names)
    text = (
        f"the loss changes with {_some(names)} at a rate of {slope.measured:.4g} in a random "
        f"direction, and its gradient says {slope.told:.4g}"
    )
    text += f"; {' and '.join(functions)} computes a gradient of its own" if functions else ""
    is_through = abs(slope.measured) <= _STRAIGHT * abs(slope.told)
    if is_through:
        text += ": as straight-through estimators do"
    is_cut = any(cut.is_on_purpose for cut in cuts) and not functions
    if is_cut:
        text += f"; a part of it ends by {in_words(cuts)}, which may be meant so"
    elif cuts and not functions:
        text += f"; numbers leave the graph by {in_words(cuts)}"
    severity = "note" if is_through or is_cut else "warning"
    expected = f"{slope.measured:.4g}"
    return WRONG_GRADIENT.of(_module(names[0]), slope.told, text, expected, severity=severity)


def _some(names: Sequence[str]) -> str:
    more = len(names) - 1
    return f"{names[0]!r}" + (f" and {more} more" if more else "")


def _module(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def _own_functions(loss: Tensor) -> list[str]:
    """The names of autograd Functions that are not torch's, among those that made a loss."""
    own = [getattr(type(node), "_forward_cls", None) for node in nodes(loss)]
    known = [f for f in own if f is not None and not f.__module__.startswith("torch.")]
    return [*dict.fromkeys(f.__name__ for f in known)]
