"""Experts that got no token at some steps: they have a gradient of zero there, and no step.

A router records the share of its experts without a token. Where no more experts of its mixture have
a gradient of exactly zero than that share says, tokens are the reason; where more have one, it is
something else.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence, is_update_of
from taiyi_fx.findings.facts.watched import Steps, Watched

Idle: TypeAlias = dict[str, Steps]
"""The steps at which experts got nothing, by module within an expert."""

_Lists: TypeAlias = dict[str, dict[str, list[Watched]]]
"""The gradients of weights in each expert of each list of experts."""


def idle_experts(evidence: Evidence) -> Idle:
    """The steps at which a router's load says why modules of its experts have no gradient."""
    found: Idle = {}
    for router in evidence.of_quantity("DeadExperts"):
        for experts in _lists_of(router.module, evidence).values():
            found |= dict(_idle(router, experts))
    return found


def without_steps_of_idle(evidence: Evidence) -> Evidence:
    """The evidence, in which an expert takes no step where it got nothing.

    Momentum and decay go on without a gradient, and say nothing of the optimizer's steps.
    """
    idle = idle_experts(evidence)
    return (
        evidence.with_series(_stopped(one, idle) for one in evidence.series) if idle else evidence
    )


def at_work(one: Watched, idle: Idle) -> Watched:
    """A series of an expert at the steps at which it got something."""
    return one.at(~np.isin(one.steps, idle[one.module])) if one.module in idle else one


def _lists_of(router: str, evidence: Evidence) -> _Lists:
    """The lists of experts that lie in a router, or else beside it."""
    within = _lists(f"{router}.", evidence)
    return within or _lists("".join(router.rpartition(".")[:2]), evidence)


def _lists(around: str, evidence: Evidence) -> _Lists:
    """The modules whose names go on with a list's name and a number, by list and number."""
    found: _Lists = {}
    for one in evidence.parameters.weight_gradients.values():
        if one.module.startswith(around):
            name, number, *_ = [*one.module[len(around) :].split("."), "", ""]
            if number.isdecimal():
                found.setdefault(name, {}).setdefault(number, []).append(one)
    return {name: experts for name, experts in found.items() if len(experts) > 1}


def _idle(router: Watched, experts: dict[str, list[Watched]]) -> Iterator[tuple[str, Steps]]:
    """The modules of experts, each with the steps at which its router is why it has no gradient."""
    silent = {number: _silent(gradients) for number, gradients in experts.items()}
    steps, counts = np.unique(np.concatenate([*silent.values()]), return_counts=True)
    places = np.searchsorted(router.steps, steps)
    is_known = np.isin(steps, router.steps)
    dead = np.full(len(steps), np.inf)  # nothing is said of a step at which no load is known
    dead[is_known] = router.values[places[is_known]] * len(experts)
    told = steps[counts < dead + 0.5]
    for number, gradients in experts.items():
        idle = np.intersect1d(silent[number], told)
        if len(idle):
            yield from ((one.module, idle) for one in gradients)


def _silent(gradients: list[Watched]) -> Steps:
    """The steps at which no weight of an expert has a gradient."""
    first, *others = (one.steps[one.values == 0] for one in gradients)
    return functools.reduce(np.intersect1d, others, first) if len(first) else first


def _stopped(one: Watched, idle: Idle) -> Watched:
    if one.module not in idle or not one.quantity.startswith("UpdateRatio"):
        return one
    return one._replace(values=np.where(is_update_of(one, idle[one.module]), 0.0, one.values))
