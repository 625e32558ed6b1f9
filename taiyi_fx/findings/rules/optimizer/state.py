"""The optimizer's state: what it has forgotten or does not own, and moments too small for it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS, lasting, since
from taiyi_fx.findings.facts.parameters import parameter_of
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched, at_common_steps
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FEW = 16
"""Steps below which nothing is said."""
_PAIRS = 8
"""Numbers of steps that follow each other, which tell steps of the optimizer from micro-batches."""
_SHARE = 0.5
"""Of the steps that were taken: it has forgotten the others."""
_MOST = 0.5
"""The share of the weights of which it is the optimizer's."""
_TWICE = 2
_UNREAD = 2
"""The first step and the latest, of which no number is known yet."""

LOST_STATE = Kind(
    "lost_state",
    "warning",
    "Make the optimizer once, before the loop, and keep it: where its state is cleared, or another "
    "takes its place, it begins each time with first moments of one batch, and without its warm-up",
)


def lost_states(evidence: Evidence) -> Iterator[Finding]:
    """Weights that have moved at each step, by more steps than their optimizer counts."""
    counts, moved = evidence.optimizer.step_counts, _moving(evidence)
    forgotten = [s for s in moved if counts[s.module] < _SHARE * _steps(s)]
    if not forgotten:
        return
    first = forgotten[0]
    count, is_most = counts[first.module], len(forgotten) > _MOST * len(moved)
    subject = "the weights" if is_most else f"the weight of {first.module!r}"
    text = (
        f"the optimizer counts {count} step{'s' * (count != 1)} of {subject}, which changed at "
        f"each of {_steps(first)}: its state was lost, or another optimizer steps in its place"
    )
    found = {"module": "" if is_most else first.module, "value": float(count)}
    yield LOST_STATE.at(first, 0, text, f"{_steps(first)} steps", **found)


SHARED_STATE = Kind(
    "shared_state",
    "warning",
    "Keep a copy: state[name] = p.grad.clone(); what clears or adds to the gradient writes into it",
)


def shared_states(evidence: Evidence) -> Iterator[Finding]:
    """Optimizers that keep a gradient itself from step to step, and no copy of it."""
    shared = evidence.optimizer.shared_state
    if not shared or not evidence.series:
        return
    module, name = next(iter(shared.items()))
    more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
    text = (
        f"what the optimizer keeps as {name!r} of {module!r}{more} lies in the memory of the "
        "gradient: it is lost where gradients are cleared, and holds the latest one alone"
    )
    is_most = len(shared) > _MOST * len(evidence.parameters.weight_gradients)
    site = {"module": "" if is_most else module}
    yield SHARED_STATE.at(evidence.series[0], 0, text, "memory of its own", **site)


EXTRA_STEPS = Kind(
    "extra_steps",
    "note",
    "Look for a second optimizer.step() in the loop, as that of a scaler beside it; where each is "
    "meant, call track() before each of them, so that all are read",
)


def extra_steps(evidence: Evidence) -> Iterator[Finding]:
    """Optimizers that take several steps at each one that is tracked."""
    counts, moved = evidence.optimizer.step_counts, _moving(evidence)
    times = [_times(counts[s.module], _steps(s)) for s in moved]
    if not times or min(times) < _TWICE or len({*times}) > 1:
        return
    first = moved[0]
    text = (
        f"the optimizer counts {counts[first.module]} steps where {_steps(first)} were tracked, "
        f"{times[0]} at each"
    )
    found = {"module": "", "value": float(times[0])}
    yield EXTRA_STEPS.at(first, 0, text, "1 step at each", **found)


def _moving(evidence: Evidence) -> list[Watched]:
    """The weights that change at each step, of which the optimizer counts these."""
    known = evidence.by_module("UpdateRatio.weight")
    return [known[m] for m in evidence.optimizer.step_counts if m in known and _moves(known[m])]


def _times(count: int, steps: int) -> int:
    """The steps that an optimizer takes at each tracked one; 0 if these are not as many at each."""
    times = round(count / steps)
    return times if abs(count - times * steps) <= _UNREAD * times else 0


def _steps(s: Watched) -> int:
    return int(s.steps[-1] - s.steps[0]) + 1


def _moves(s: Watched) -> bool:
    """True if it changes from each step to the next: of micro-batches, not each makes a step."""
    pairs = int((np.diff(s.steps) == 1).sum())
    return _steps(s) >= _FEW and pairs >= _PAIRS and bool((s.values > 0).all())


_FALL = 2.0
"""How much smaller gradients have to be than they were, for steps to be too small."""

LOST_MOMENT = Kind(
    "lost_moment",
    "warning",
    "Keep parameters in float32 and compute in float16 (torch.autocast with a GradScaler), or take "
    "bfloat16: with nothing to divide by, the step is lr / eps times the mean gradient",
)

UNDECAYING_MOMENT = Kind(
    "undecaying_moment",
    "note",
    "Keep the optimizer's state in float32, as that of parameters in float32 is, or take a second "
    "beta of 0.95 to 0.99, which bfloat16 can hold",
)


def undecaying_moments(evidence: Evidence) -> Iterator[Finding]:
    """Gradients that fell, of which the second moment's format cannot follow.

    In bfloat16 a number times 0.999 is the number itself: the mean of squares only grows, and steps
    stay as small as the largest gradients so far made them.
    """
    of_weights = evidence.parameters.weight_gradients.values()
    every = (s for s in of_weights if s.module in evidence.optimizer.undecaying_moments)
    fallen = [(s, _fall(s)) for s in every if len(s.values) >= 2 * STEPS]
    fallen = [(s, fall) for s, fall in fallen if fall >= _FALL]
    if not fallen:
        return
    site, fall = sorted(fallen, key=lambda one: one[1])[len(fallen) // 2]
    kept_in, decay = evidence.optimizer.undecaying_moments[site.module]
    text = (
        f"the optimizer keeps its second moments in {kept_in}, where a number times {decay:.4g} is "
        f"the number itself: they cannot become smaller, though the gradient of {site.module!r} "
        f"is {fall:.2g} times as small as it was, and steps stay as small as it made them then"
    )
    yield UNDECAYING_MOMENT.at(site, 0, text, f"a fall below {_FALL:g}", module="", value=fall)


def _fall(gradient: Watched) -> float:
    """The ratio of the first eighth's gradient to that of the last half."""
    now = median(gradient.last_half)
    return median(gradient.values[: max(STEPS, len(gradient.values) // 8)]) / now if now else 0.0


def lost_moments(evidence: Evidence) -> Iterator[Finding]:
    """Parameters with a gradient whose second moment stays exactly 0.

    Adam adds a thousandth of the squared gradient at each step, which float16 rounds to nothing
    where gradients are below 0.005. A mean of squares of which one is above zero is above zero in
    any format that holds it, so that there is no bound to choose.
    """
    gradients = {(s.module, "weight"): s for s in evidence.of_quantity("WeightGradNorm")}
    every = evidence.of_each("ParameterGradNorm")
    gradients |= {(s.module, parameter_of(s)): s for s in every}
    for one in evidence.of_each("SecondMoment"):
        name = parameter_of(one)
        gradient = gradients.get((one.module, name))
        if gradient is not None:
            yield from _of_parameter(name, *at_common_steps([one, gradient]))


def _of_parameter(name: str, moment: Watched, gradient: Watched) -> Iterator[Finding]:
    is_lost = (moment.values == 0) & (gradient.values > 0)
    if lasting(is_lost):
        i = since(is_lost)
        text = (
            f"step {moment.steps[i]}: the optimizer's second moment of {name!r} of "
            f"{moment.module!r} is exactly 0 from here on, though its gradient is not "
            f"({gradient.values[-1]:.2g}): the squares are too small for the format"
        )
        yield LOST_MOMENT.at(moment, i, text, "above 0")
