"""Settings of an optimizer that no training is meant to have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from taiyi_fx.findings.blocks import common_block
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.of_optimizer import GroupSettings
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_LONG = 0.999
"""The momentum by which a step goes by a thousand gradients: 0.9 to 0.99 are usual."""
_LEAST = 1e-6
"""The least eps that is no usual one."""
_DAMPED, _SLOW = 30.0, 1e-4
"""Times the gradients, and the size of steps beside the weights, of an eps that stops learning."""
_MOST = 0.5
"""The share of the modules of which it is the model's."""

ODD_SETTING = Kind(
    "odd_setting",
    "warning",
    "Look at how the optimizer and its groups are built: the first of betas is that of the "
    "gradient, 0.9 as a rule, and maximize turns the steps of a group round",
)
_DAMPENING = (
    "Leave dampening at 0: each step adds 1 - dampening times the gradient to what momentum keeps"
)
_EPSILON = (
    "Leave eps at 1e-8: it is there to avoid a division by zero. A larger one makes steps smaller, "
    "and wants a learning rate that is as much larger"
)
NEGATIVE_RATE = Kind(
    "odd_setting",
    "alert",
    "Look at the schedule: one that is stepped longer than it was made for may fall below 0, and "
    "steps go uphill from then on",
)


def odd_settings(evidence: Evidence) -> Iterator[Finding]:
    """Momenta near or above 1, or of no gradient; single groups that go uphill; rates below 0."""
    for site in [*evidence.parameters.weights.values()][:1]:
        yield from _of_groups(site, evidence)
    yield from _negative_rates(evidence)


def _of_groups(site: Watched, evidence: Evidence) -> Iterator[Finding]:
    groups = evidence.optimizer.group_settings
    for group in groups:
        name = _name(group.modules, evidence)
        subject = f"the group of {name!r}" if name else "the optimizer"
        if group.momentum >= _LONG:
            text = f"{subject} has a momentum of {group.momentum:.5g}: "
            is_endless = group.momentum >= 1
            text += (
                "steps grow by all gradients there ever were"
                if is_endless
                else f"each step goes by the last {1 / (1 - group.momentum):.0f} gradients"
            )
            if 0 < group.second < group.momentum:
                text += f"; its betas, {group.momentum:g} and {group.second:g}, look exchanged"
            others = {"severity": "alert" if is_endless else "warning", "value": group.momentum}
            yield ODD_SETTING.at(site, 0, text, "near 0.9", module=name, **others)
        elif group.momentum > 0 and group.dampening >= 1:
            text = (
                f"{subject} has a dampening of {group.dampening:.3g}: after the first step, "
                f"momentum takes {1 - group.dampening:.3g} of each gradient: nothing more is learnt"
            )
            others = {"severity": "alert", "value": group.dampening, "advice": _DAMPENING}
            yield ODD_SETTING.at(site, 0, text, "dampening=0", module=name, **others)
        elif (times := _epsilon_over_gradients(group, evidence)) >= _DAMPED:
            text = (
                f"{subject} has an eps of {group.epsilon:.3g}, {times:.3g} times the size of its "
                "gradients: it divides steps by that, and not by the size of the gradients"
            )
            others = {"value": group.epsilon, "advice": _EPSILON}
            yield ODD_SETTING.at(site, 0, text, "eps=1e-8", module=name, **others)
        elif group.maximizes and not all(other.maximizes for other in groups):
            text = f"{subject} maximizes the loss, and other groups minimize it"
            yield ODD_SETTING.at(site, 0, text, "maximize=False", module=name, value=1.0)


def _epsilon_over_gradients(group: GroupSettings, evidence: Evidence) -> float:
    """Times the gradients of half of its weights and more that Adam's epsilon is; 0 if unknown.

    Of weights that hardly move alone: some recipes have a large one on purpose, and a rate for it.
    """
    own = {*group.modules} - evidence.parameters.beginning_at_zero
    moves = [median(s.last_half) for s in evidence.steps_of_weights if s.name in own]
    if group.epsilon < _LEAST or not moves or not median(moves) < _SLOW:
        return 0.0
    sizes = [
        median(s.values) / np.sqrt(count)
        for s in evidence.parameters.weight_gradients.values()
        if s.name in own
        and (count := evidence.parameters.count_of(s))
        and np.isfinite(s.values).all()
    ]
    usual = median(sizes)
    return group.epsilon / usual if usual > 0 else 0.0


def _negative_rates(evidence: Evidence) -> Iterator[Finding]:
    for one in evidence.rates:
        if (one.values < 0).any():
            i = int((one.values < 0).argmax())
            text = f"from step {one.steps[i]} on {one.quantity} is below 0, {one.values[i]:.3g}"
            yield NEGATIVE_RATE.at(one, i, text, "above 0", module="")
            return


def _name(modules: Sequence[str], evidence: Evidence) -> str:
    """The part of the model that a group has; empty of half of the modules and more."""
    known: dict[str, Watched] = evidence.parameters.weights
    own = [name for name in modules if name in known]
    is_most = not own or len(own) > _MOST * len(known)
    return "" if is_most else common_block(own)
