"""Parameters that do not learn though others do: a gradient of zero, or no update."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from taiyi_fx.findings.blocks import in_blocks, named
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.idle import at_work, idle_experts
from taiyi_fx.findings.facts.lasting import STEPS, ends, mostly, since
from taiyi_fx.findings.facts.parameters import parameter_of
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.optimizer.rates import in_group
from taiyi_fx.findings.rules.optimizer.rounding import rounded_away
from taiyi_fx.findings.rules.optimizer.vanished import share_left

_NOTHING = 1e-7
"""A gradient beside its weight, of what lies in a branch that is nothing yet: Adam's eps is larger
than it, and float32 rounds the step away."""
_FIRST = 2
_SOON = 4
"""Numbers in which one moves that an optimizer has: its first step is seen at the second."""
_GROWN, _MOSTLY = 3.0, 0.85
"""The factor by which a gradient has grown that is never cleared, and the share of steps at which
it grows."""
_MANY = 2 * STEPS
"""Numbers in which one that is pulled a little has to move: the first steps may be rounded away."""

ZERO_GRADIENT = Kind(
    "zero_gradient",
    "alert",
    "Nothing that it computes reaches the loss: look for a detach, a dead activation behind it, a "
    "multiplication by zero, or an output that is not used",
)
ZERO_GRADIENT_OF_ALL = Kind(
    "zero_gradient",
    "alert",
    "The loss does not depend on the model's parameters: look for a weight of zero before it, "
    "outputs that are all dead or saturated, and a loss that is constant",
)
UNFED = Kind(
    "zero_gradient",
    "alert",
    "Look at what makes its input: an activation that is dead, a multiplication by zero, a mask "
    "that hides all",
)
NO_UPDATE = Kind(
    "no_update",
    "alert",
    "It is not among the parameters that the optimizer was given, or in a group whose learning "
    "rate is 0; to freeze it on purpose call requires_grad_(False)",
)
NOT_GIVEN = Kind(
    "no_update",
    "alert",
    "The optimizer was not given it: build the optimizer after the model is complete, or add it by "
    "add_param_group; to freeze it on purpose call requires_grad_(False)",
)
WITHOUT_GRADIENT = Kind(
    "no_update",
    "note",
    "None where its gradient is taken out on purpose, as of the last layer in DINO's first epoch; "
    "else look for what sets .grad to None between backward and the optimizer's step",
)
DROPPED = Kind(
    "no_update",
    "alert",
    "Look at what changes the optimizer's groups, or makes another optimizer, at this step: it has "
    "to be given all parameters that are to be trained",
)
ENDED_BY_ITSELF = Kind(
    "no_update",
    "note",
    "L-BFGS ends where it has converged, by tolerance_grad and tolerance_change, or where its line "
    "search finds no step, as the last digits of float32 may have it",
)
CONVERGED = Kind(
    "no_update",
    "note",
    "None where the loss is low: all is learnt. Else look for a part of it that no weight reaches",
)
NO_UPDATE_OF_ALL = Kind(
    "no_update",
    "alert",
    "The learning rate is 0 or far too small, optimizer.step() is not called, or the optimizer was "
    "given the parameters of another model",
)


def zero_gradients(evidence: Evidence) -> Iterator[Finding]:
    """Modules whose gradient is exactly zero while others have one.

    Experts without a token have none: `dead_experts` looks at these.
    """
    idle = idle_experts(evidence)
    known = (at_work(s, idle) for s in evidence.parameters.weight_gradients.values())
    every = [s for s in known if len(s.values) >= STEPS]
    silent = [s for s in every if mostly(s.values == 0) or ends(s.values == 0)]
    if not silent:
        return
    # What is dead cuts off what lies before it: the last one is where it begins.
    site, others = silent[-1], silent[:-1]
    i = since(site.values == 0)
    is_unfed = _is_unfed(site, int(site.steps[i]), evidence)
    if len(silent) == len(every) and not is_unfed:
        text = f"step {site.steps[i]}: all gradients are exactly 0 from here on"
        yield ZERO_GRADIENT_OF_ALL.at(site, i, text, "above 0", module="")
        return
    text = f"step {site.steps[i]}: the gradient of {site.module!r} is exactly 0 from here on"
    text += ", as what it is given is" * is_unfed
    text += f", and so is that of {names_of(others)}, earlier in the model" if others else ""
    yield (UNFED if is_unfed else ZERO_GRADIENT).at(site, i, text, "above 0")


def _is_unfed(site: Watched, step: int, evidence: Evidence) -> bool:
    """True if what a module is given is exactly 0 from a step on, and its output has a gradient."""
    known = [s for s in evidence.of_quantity("InputRMS", "OutputGradRMS") if s.name == site.module]
    given, pulls = (
        [s.values[s.steps >= step] for s in known if s.quantity.startswith(side)]
        for side in ("Input", "Output")
    )
    is_zero = any(map(len, given)) and not any(values.any() for values in given)
    return is_zero and (not pulls or any(values.any() for values in pulls))


def no_update(evidence: Evidence) -> Iterator[Finding]:
    """Modules that have a gradient and never change, while others do."""
    gradients, rounded = evidence.parameters.weight_gradients, rounded_away(evidence)
    # Frozen after a training, a weight still has the last gradient of that.
    out = rounded | evidence.model.frozen | _left_from_before(evidence)
    weights = (s for s in evidence.parameters.weights.values() if s.module not in out)
    # What no optimizer has will not move later either.
    known = [s for s in weights if len(s.values) >= _SOON]
    every = [s for s in known if len(s.values) >= _MANY or s.module in evidence.optimizer.left_out]
    pulls = {s.module: _size(gradients.get(s.module)) / max(_size(s), 1e-30) for s in every}
    # Float32 rounds a small step away; but not where others move that are pulled less.
    least = min((pulls[s.module] for s in every if not _is_still(s)), default=0.0)
    # A norm may be rounded to what it was, though elements move.
    steps = evidence.of_quantity("UpdateRatio.weight")
    moving = {s.module for s in steps if (s.values[_first(s) :] > 0).any()}
    least = max(least / 2, _NOTHING if evidence.parameters.has_layer_scales else 0.0)
    still = [
        s for s in every if _is_still(s) and s.module not in moving and pulls[s.module] > least
    ]
    expected = "a change at each step"
    moves = any(s.module in moving or not _is_still(s) for s in known)
    if still and not moves and len(still) == len([s for s in every if s.module in gradients]):
        text = "no parameter changes, though all have gradients"
        yield NO_UPDATE_OF_ALL.at(still[0], 0, text, expected, module="")
        return
    ended = [s for s in every if _has_ended(s) and _is_pulled_since(s, evidence)]
    if ended and len(ended) == len([s for s in every if s.module in gradients]):
        site = min(ended, key=lambda s: _since_still(s))
        i = _since_still(site)
        left = share_left(evidence)
        why = (
            "though all have gradients"
            if left is None
            else f"as gradients have come down to {left:.0e} of what they were"
        )
        text = f"from step {site.steps[i]} on no parameter changes, {why}"
        ends = any(group.rule == "lbfgs" for group in evidence.optimizer.group_settings)
        kind = CONVERGED if left is not None else ENDED_BY_ITSELF if ends else NO_UPDATE_OF_ALL
        yield kind.at(site, i, text, expected, module="")
        return
    yield from _dropped([s for s in known if s not in still], evidence)
    unfed = {s.module for s in still if _has_no_gradient_at_steps(s, evidence)}
    for site, name in in_blocks(
        [s for s in still if s.module in unfed], evidence.parameters.weights
    ):
        text = (
            f"{named(site, name)} never changes: the optimizer has it, and has taken no step of "
            "it, as its gradient is None by then"
        )
        yield WITHOUT_GRADIENT.at(site, 0, text, expected, module=name)
    for site, name in in_blocks(
        [s for s in still if s.module not in unfed], evidence.parameters.weights
    ):
        text = f"{named(site, name)} never changes, though it has a gradient and others change"
        is_left_out = site.module in evidence.optimizer.left_out
        text += _of_optimizer(evidence) if is_left_out else in_group(name, evidence)
        text += _never_cleared(gradients.get(site.module)) if is_left_out else ""
        yield (NOT_GIVEN if is_left_out else NO_UPDATE).at(site, 0, text, expected, module=name)
    if moves:
        yield from _other_parameters(evidence, out)


def _left_from_before(evidence: Evidence) -> frozenset[str]:
    """The modules that no optimizer has, whose gradient is one and the same at all steps, though
    none comes to what they return: it was left by another training.
    """
    reached = {s.name for s in evidence.of_quantity("OutputGradRMS")}
    beside = evidence.called & evidence.optimizer.left_out if reached else frozenset()
    return frozenset(
        s.module
        for s in evidence.parameters.weight_gradients.values()
        if s.module in beside and s.module not in reached and (s.values == s.values[0]).all()
    )


def _has_no_gradient_at_steps(s: Watched, evidence: Evidence) -> bool:
    """True if an optimizer that counts the steps of each weight counts none of this one."""
    return evidence.optimizer.step_counts.get(s.module) == 0 and any(
        evidence.optimizer.step_counts.values()
    )


def _dropped(known: Sequence[Watched], evidence: Evidence) -> Iterator[Finding]:
    """Modules that moved, and stay since some step, which no optimizer has any more."""
    left = [s for s in known if s.module in evidence.optimizer.left_out and not _is_still(s)]
    dropped = [s for s in left if _stays_under_pull(s, evidence)]
    for site, name in in_blocks(dropped, evidence.parameters.weights):
        i = _since_still(site)
        text = (
            f"from step {site.steps[i]} on {named(site, name)} does not change, though it has a "
            "gradient and others change; it is in no group of the optimizer any more"
        )
        yield DROPPED.at(site, i, text, "a change at each step", module=name)


def _stays_under_pull(s: Watched, evidence: Evidence) -> bool:
    return len(s.values) - _since_still(s) >= _SOON and _is_pulled_since(s, evidence)


def _is_pulled_since(s: Watched, evidence: Evidence) -> bool:
    """True for a weight that has a gradient at all numbers since it does not change."""
    gradient = evidence.parameters.weight_gradients.get(s.module)
    if gradient is None:
        return False
    return bool((gradient.values[gradient.steps >= s.steps[_since_still(s)]] > 0).all())


def _other_parameters(evidence: Evidence, out: Collection[str]) -> Iterator[Finding]:
    """Parameters that are no weights, as a token of a class, which have a gradient and stay.

    Not beside others of the module's that move, if all are in one group: the optimizer has it, and
    had no gradient of it, as where that of a player is read after the other has added to it.
    """
    pulled = {(s.module, parameter_of(s)): s for s in evidence.of_each("ParameterGradNorm")}
    steps = [*evidence.of_each("UpdateRatio")]
    at_work = {s.module for s in steps if s.values.any()} & evidence.optimizer.groups.keys()
    # Of what is zero, as tokens and positions often begin, a step has no ratio.
    zero = [s for s in evidence.of_each("ParameterNorm") if not s.values.any()]
    for s in (*zero, *steps):
        gradient = pulled.get((s.module, parameter_of(s)))
        if "weight" in s.quantity or gradient is None or s.module in (*out, *at_work):
            continue
        # A hinge's gradient of a bias is nothing but rounding while all are within the margin.
        is_pulled = (gradient.values > 0).all() and median(gradient.values) > _NOTHING
        if len(s.values) >= _MANY and not s.values.any() and is_pulled:
            of = f" of {s.module!r}" if s.module else ""
            text = f"the parameter {parameter_of(s)!r}{of} never changes, though it has a gradient"
            yield NO_UPDATE.at(s, 0, f"{text} and others change", "a change at each step")


def _of_optimizer(evidence: Evidence) -> str:
    """The ending of a sentence on what no optimizer has."""
    count = evidence.optimizer.strangers
    if not count:
        return "; it is in no group of the optimizer"
    return (
        f"; it is in no group of the optimizer, which has {count} parameter{'s' * (count > 1)} "
        "that the model does not have: a part was replaced after the optimizer was built"
    )


def _never_cleared(gradient: Watched | None) -> str:
    """The ending of a sentence on what no optimizer clears, if its gradient grows and grows."""
    if gradient is None or gradient.values[-1] < _GROWN * gradient.values[0]:
        return ""
    if (np.diff(gradient.values) > 0).mean() < _MOSTLY:
        return ""
    return ", so that no zero_grad() clears its gradient, which adds up"


def _has_ended(s: Watched) -> bool:
    """True if it moved, and does not in the longer part of all steps, or of all numbers."""
    first = _since_still(s)
    count = len(s.values) - first
    is_long = 2 * (s.steps[-1] - s.steps[first]) > s.steps[-1] - s.steps[0]
    is_known = count > max(_MANY, len(s.values) / 2) or (count >= _SOON and is_long)
    return not _is_still(s) and len(s.values) >= _MANY and bool(is_known)


def _since_still(s: Watched) -> int:
    return since(s.values == s.values[-1])


def _is_still(s: Watched) -> bool:
    """True if it never changes but in the first two steps, as where something overwrites it."""
    return bool((s.values[_first(s) :] == s.values[-1]).all())


def _first(s: Watched) -> int:
    """The index from which on it has to be still: something may overwrite it at the first step."""
    return _FIRST if len(s.values) >= _MANY else 0


def _size(s: Watched | None) -> float:
    return 0.0 if s is None else median(s.values)
