"""The order of findings: the urgent first, and what was there before what it leads to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taiyi_fx.findings.facts.source.of_loop import OF_TRAINING
from taiyi_fx.findings.finding import SEVERITIES, Finding

ORIGINS = frozenset(
    "wild_input input_spike wild_loss odd_loss growing_values odd_setting wild_start "
    "large_decay changed_between stream_jump unsquashed_loss unbounded_loss class_axis "
    "heavy_dropout large_epsilon changed_gradient changed_by_hook odd_rate weight_jump "
    "rank_collapse outlier gradient_jump wild_output raised_rate".split()
)
"""Kinds that make the steps of an optimizer too large."""
_MAKE_GRADIENTS = ("changed_gradient", "changed_between", "stream_jump")
_LONG = 8
"""Steps by which what was there before a jump was there for sure."""
_EFFECTS = frozenset(
    "weight_jump drift rank_collapse outlier gradient_jump share_of_trouble zero_output "
    "saturated zero_gradient attention_collapse wild_output wild_parameter".split()
)
"""Kinds that too large steps of all weights leave behind."""


_STRUCTURAL = OF_TRAINING.union(
    "detached hidden_layers broadcast normalised_samples squashed_loss softmax_axis "
    "untaught_router batch_as_places masked_product reads_ahead padded_targets padded_place "
    "vanishing_gradient odd_weights weighted_mean blank_targets flat_function "
    "unreached_rows returned_messages torn_edges".split()
)
"""Kinds of what is wrong in how a model is built and trained, which holds from the first step."""
_IN_TIME = frozenset(
    "large_steps divergence drift growth wild_output loss_spike weight_jump raised_rate "
    "attention_collapse rank_collapse share_of_trouble zero_output zero_gradient".split()
)
"""Kinds of what a training comes to."""


def by_severity(every: Sequence[Finding]) -> list[Finding]:
    """The findings, most urgent first; those that are as urgent in their order."""
    return sorted(every, key=lambda found: SEVERITIES.index(found.severity))


def causes_first(every: Sequence[Finding]) -> list[Finding]:
    """The findings by severity, but for large steps of the optimizer: by time.

    What was odd before the first large step led to it, and is as urgent; what came later is left
    behind by it.
    """
    ordered = _jumps_behind_what_was_before(by_severity(_structural_as_urgent(every)))
    of_all = [one for one in ordered if one.kind == "large_steps" or _is_of_all(one)]
    if not of_all:
        return ordered
    steps = min(of_all, key=lambda one: one.step)
    origins = [one for one in ordered if one.kind in ORIGINS and _comes_before(one, steps)]
    later = [one for one in ordered if one.step >= steps.step and one is not steps]
    effects = [one for one in later if one.kind in _EFFECTS and one.module != steps.module]
    rest = [one for one in ordered if one not in (*origins, *effects, steps)]
    urgent = [one for one in rest if one.severity == "alert"]
    first = [replace(one, severity="alert") for one in origins[:1]]
    return by_severity([*first, *urgent, steps, *origins[1:], *rest[len(urgent) :], *effects])


def _structural_as_urgent(every: Sequence[Finding]) -> list[Finding]:
    """The findings, of which what is wrong from the first step is as urgent as what comes later.

    It is put before these.
    """
    later = [one for one in every if one.kind in _IN_TIME and one.step > 0]
    first = [one for one in every if one.kind in _STRUCTURAL and one.step == 0]
    first = [one for one in first if one.severity != "note"]
    if not later or not first:
        return [*every]
    worst = by_severity([*first, *later])[0].severity
    place = min(every.index(one) for one in (*first, *later))
    rest = [[one for one in part if one not in first] for part in (every[:place], every[place:])]
    return [*rest[0], *(replace(one, severity=worst) for one in first), *rest[1]]


def _jumps_behind_what_was_before(ordered: Sequence[Finding]) -> list[Finding]:
    """The findings, with a weight that jumps behind urgent ones that were there long before."""
    jumps = [one for one in ordered if one.kind == "weight_jump"]
    if not jumps:
        return [*ordered]
    jump = jumps[0]
    before = [one for one in ordered if _leads_to(one, jump)]
    rest = [one for one in ordered if one not in before]
    i = rest.index(jump)
    return [*rest[:i], *before, *rest[i:]]


def _leads_to(one: Finding, jump: Finding) -> bool:
    is_origin = one.kind in ORIGINS and one is not jump and one.severity == jump.severity
    return is_origin and one.step + _LONG <= jump.step


def _is_of_all(one: Finding) -> bool:
    """True for weights that all grow or shrink."""
    return one.kind == "drift" and not one.module


def _comes_before(one: Finding, steps: Finding) -> bool:
    """True if something was there before an optimizer's step, as what made its gradient is."""
    return one.step < steps.step or (one.step == steps.step and one.kind in _MAKE_GRADIENTS)
