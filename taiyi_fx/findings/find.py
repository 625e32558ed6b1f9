"""All rules, applied to what is known; causes first, with what follows from them beneath."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from taiyi_fx.findings.causes import ORIGINS, by_severity, causes_first
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.idle import without_steps_of_idle
from taiyi_fx.findings.facts.watched import grouped
from taiyi_fx.findings.finding import SEVERITIES, Finding, Severity, with_consequences
from taiyi_fx.findings.followed import follow_ups_beneath
from taiyi_fx.findings.listed import Findings
from taiyi_fx.findings.rules.attention.attention import (
    attention_collapses,
    attention_logit_growths,
    attention_sinks,
    sharp_starts,
)
from taiyi_fx.findings.rules.attention.heads import odd_heads
from taiyi_fx.findings.rules.attention.input_masks import hidden_tokens
from taiyi_fx.findings.rules.attention.masks import (
    masks_ahead,
    missing_masks,
    narrow_masks,
    reading_ahead,
    turned_masks,
    unmasked_padding,
)
from taiyi_fx.findings.rules.attention.routers import (
    dead_experts,
    dropped_tokens,
    router_collapses,
    unbalanced_routers,
)
from taiyi_fx.findings.rules.attention.same_experts import same_weights, untaught_routers
from taiyi_fx.findings.rules.attention.scores import grown_scores
from taiyi_fx.findings.rules.gradients.depth import chains, jumps
from taiyi_fx.findings.rules.gradients.gradient_steps import gradient_steps
from taiyi_fx.findings.rules.gradients.gradients import changed_gradients
from taiyi_fx.findings.rules.gradients.missing import missing_gradients
from taiyi_fx.findings.rules.gradients.own_parameters import own_parameters
from taiyi_fx.findings.rules.losses.advantages import trained_advantages
from taiyi_fx.findings.rules.losses.batch_axes import batch_axes
from taiyi_fx.findings.rules.losses.constant_terms import constant_terms
from taiyi_fx.findings.rules.losses.evaluation_inputs import evaluation_inputs
from taiyi_fx.findings.rules.losses.evaluations import (
    evaluation_gaps,
    overfitting,
    undefined_evaluations,
)
from taiyi_fx.findings.rules.losses.given import (
    blank_targets,
    dropped_outputs,
    flat_functions,
    masked_products,
    moving_targets,
    odd_ratios,
    own_pairs,
    pulled_alone,
    unreachable_targets,
)
from taiyi_fx.findings.rules.losses.loss import divergence, spikes
from taiyi_fx.findings.rules.losses.messages import stray_messages
from taiyi_fx.findings.rules.losses.mixed_axes import broadcasts, torn_views
from taiyi_fx.findings.rules.losses.noise import odd_noise, turned_signs
from taiyi_fx.findings.rules.losses.odd_losses import odd_losses
from taiyi_fx.findings.rules.losses.plateau import plateau
from taiyi_fx.findings.rules.losses.runs_of_batches import sorted_batches
from taiyi_fx.findings.rules.losses.sequences import (
    copied_targets,
    first_places,
    held_targets,
    ignored_classes,
    padded,
    shifted_targets,
)
from taiyi_fx.findings.rules.losses.shifts import relapses, shifts
from taiyi_fx.findings.rules.losses.single_class import single_classes
from taiyi_fx.findings.rules.losses.softmax_axes import normalised_samples, softmax_axes
from taiyi_fx.findings.rules.losses.squared_means import squared_means
from taiyi_fx.findings.rules.losses.squashed_twice import squashed_twice
from taiyi_fx.findings.rules.losses.trivial import trivial_losses
from taiyi_fx.findings.rules.losses.unbounded import unbounded_losses
from taiyi_fx.findings.rules.losses.weights import odd_weights, weighted_means
from taiyi_fx.findings.rules.losses.wild_losses import wild_losses, wild_starts
from taiyi_fx.findings.rules.losses.worse_than_mean import worse_than_mean
from taiyi_fx.findings.rules.optimizer.decays import large_decays
from taiyi_fx.findings.rules.optimizer.foreign_steps import foreign_steps
from taiyi_fx.findings.rules.optimizer.learning import no_update, zero_gradients
from taiyi_fx.findings.rules.optimizer.lost_steps import lost_steps
from taiyi_fx.findings.rules.optimizer.odd_settings import odd_settings
from taiyi_fx.findings.rules.optimizer.overrun import overrun_schedules
from taiyi_fx.findings.rules.optimizer.rates import odd_rates
from taiyi_fx.findings.rules.optimizer.rounding import updates_lost
from taiyi_fx.findings.rules.optimizer.scaler import overflow, skipped_steps
from taiyi_fx.findings.rules.optimizer.schedules import (
    ended_rates,
    faint_rates,
    raised_rates,
    restarted_warm_ups,
    rising_rates,
    slow_warm_ups,
)
from taiyi_fx.findings.rules.optimizer.state import (
    extra_steps,
    lost_moments,
    lost_states,
    shared_states,
    undecaying_moments,
)
from taiyi_fx.findings.rules.optimizer.steps import odd_steps, step_sizes, weight_jumps
from taiyi_fx.findings.rules.own import own_rules
from taiyi_fx.findings.rules.structure.as_built import (
    frozen_adapters,
    hidden_layers,
    idle_switches,
    same_masks,
    shared_entries,
)
from taiyi_fx.findings.rules.structure.batch_norm import stale_statistics
from taiyi_fx.findings.rules.structure.copies import parted_copies
from taiyi_fx.findings.rules.structure.foreign_outputs import foreign_outputs
from taiyi_fx.findings.rules.structure.hooked import changed_by_hooks, with_hooks_named
from taiyi_fx.findings.rules.structure.layer_runs import doubled_outputs, missing_activations
from taiyi_fx.findings.rules.structure.layers import odd_layers
from taiyi_fx.findings.rules.structure.left_out import missing_norms, missing_residuals
from taiyi_fx.findings.rules.structure.modes import evaluation_modes, unfed_norms
from taiyi_fx.findings.rules.structure.odd_attributes import odd_attributes
from taiyi_fx.findings.rules.structure.odd_forwards import odd_forwards
from taiyi_fx.findings.rules.structure.odd_norms import odd_norms, single_norms, small_gains
from taiyi_fx.findings.rules.structure.slips import slips
from taiyi_fx.findings.rules.structure.untrained import (
    tuned_from_nothing,
    untrained_backbones,
)
from taiyi_fx.findings.rules.structure.zero_weights import zero_weights
from taiyi_fx.findings.rules.values.alike import alike_rows, same_units
from taiyi_fx.findings.rules.values.changed_between import changed_between
from taiyi_fx.findings.rules.values.drift import drift
from taiyi_fx.findings.rules.values.fading import faded_outputs
from taiyi_fx.findings.rules.values.far_entries import far_entries
from taiyi_fx.findings.rules.values.fields import overlapping_fields
from taiyi_fx.findings.rules.values.formats import keep_wider, massive_activations, out_of_range
from taiyi_fx.findings.rules.values.growing_values import growing_values
from taiyi_fx.findings.rules.values.idle_branches import idle_branches
from taiyi_fx.findings.rules.values.inputs import drifting_inputs, wild_inputs
from taiyi_fx.findings.rules.values.interleaved_inputs import interleaved_inputs
from taiyi_fx.findings.rules.values.metrics import undefined_metrics
from taiyi_fx.findings.rules.values.non_finite import first_step, non_finite
from taiyi_fx.findings.rules.values.odd_starts import odd_starts
from taiyi_fx.findings.rules.values.outputs import wild_between, wild_outputs, zero_outputs
from taiyi_fx.findings.rules.values.ranks import rank_collapses
from taiyi_fx.findings.rules.values.repeated_inputs import repeated_inputs
from taiyi_fx.findings.rules.values.repeated_samples import repeated_samples, repeated_views
from taiyi_fx.findings.rules.values.rounded_inputs import rounded_inputs
from taiyi_fx.findings.rules.values.saturation import saturated
from taiyi_fx.findings.rules.values.shares import shares_of_trouble
from taiyi_fx.findings.rules.values.siblings import outliers
from taiyi_fx.findings.rules.values.sizes import wild_parameters
from taiyi_fx.findings.rules.values.stream_jumps import stream_jumps
from taiyi_fx.findings.rules.values.trends import growth

_T = TypeVar("_T")

Rule = Callable[[Evidence], Iterator[Finding]]

# From causes to consequences: of findings that are as urgent, that of an earlier rule comes first.
RULES: tuple[Rule, ...] = (
    wild_inputs,
    rounded_inputs,
    far_entries,
    repeated_inputs,
    repeated_samples,
    repeated_views,
    interleaved_inputs,
    wild_losses,
    odd_losses,
    wild_parameters,
    odd_starts,
    updates_lost,
    lost_moments,
    undecaying_moments,
    no_update,
    hidden_layers,
    changed_gradients,
    gradient_steps,
    changed_by_hooks,
    odd_settings,
    odd_rates,
    overrun_schedules,
    faint_rates,
    ended_rates,
    restarted_warm_ups,
    raised_rates,
    rising_rates,
    slow_warm_ups,
    frozen_adapters,
    idle_switches,
    large_decays,
    lost_states,
    shared_states,
    extra_steps,
    lost_steps,
    odd_layers,
    odd_attributes,
    odd_forwards,
    foreign_outputs,
    weight_jumps,
    foreign_steps,
    turned_masks,
    missing_masks,
    masks_ahead,
    reading_ahead,
    narrow_masks,
    hidden_tokens,
    unmasked_padding,
    softmax_axes,
    grown_scores,
    normalised_samples,
    broadcasts,
    torn_views,
    doubled_outputs,
    slips,
    missing_activations,
    masked_products,
    weighted_means,
    squared_means,
    odd_weights,
    own_pairs,
    trained_advantages,
    constant_terms,
    dropped_outputs,
    unreachable_targets,
    blank_targets,
    flat_functions,
    stray_messages,
    overlapping_fields,
    pulled_alone,
    moving_targets,
    odd_ratios,
    copied_targets,
    held_targets,
    shifted_targets,
    first_places,
    padded,
    ignored_classes,
    odd_noise,
    turned_signs,
    drift,
    batch_axes,
    untrained_backbones,
    tuned_from_nothing,
    unfed_norms,
    evaluation_modes,
    alike_rows,
    rank_collapses,
    same_units,
    faded_outputs,
    missing_residuals,
    missing_norms,
    odd_norms,
    small_gains,
    single_norms,
    same_masks,
    stream_jumps,
    changed_between,
    idle_branches,
    outliers,
    jumps,
    step_sizes,
    same_weights,
    untaught_routers,
    router_collapses,
    unbalanced_routers,
    dead_experts,
    dropped_tokens,
    sharp_starts,
    attention_collapses,
    attention_logit_growths,
    attention_sinks,
    odd_heads,
    zero_outputs,
    shares_of_trouble,
    saturated,
    zero_weights,
    own_parameters,
    zero_gradients,
    missing_gradients,
    squashed_twice,
    growing_values,
    wild_between,
    wild_starts,
    wild_outputs,
    out_of_range,
    keep_wider,
    massive_activations,
    stale_statistics,
    growth,
    chains,
    odd_steps,
    unbounded_losses,
    divergence,
    relapses,
    spikes,
    shifts,
    trivial_losses,
    worse_than_mean,
    evaluation_inputs,
    evaluation_gaps,
    overfitting,
    sorted_batches,
    single_classes,
    plateau,
    drifting_inputs,
    shared_entries,
    parted_copies,
    undefined_metrics,
    undefined_evaluations,
    own_rules,
)
"""The rules for numbers that are finite. Those after the first NaN or Inf are not looked at."""

_LEADS_TO_NON_FINITE = ORIGINS.union(
    "drift wild_parameter large_steps growth attention_collapse attention_logit_growth "
    "divergence".split()
) - {"input_spike", "wild_start", "large_decay", "rank_collapse"}
"""Kinds of findings whose numbers grow to Inf."""
_OWN = ("own_rule", "rule_failed")
_REPORT = "The other rules were applied; please report this one, with the text"


def find(evidence: Evidence, *, strict: bool = False) -> Findings:
    """All findings, most urgent first; those that follow from one are its consequences.

    A rule that raises an error is a note, and the others go on.

    Args:
        evidence: The numbers.
        strict: Whether the error goes on instead.

    Raises:
        Exception: Any that a rule raises, if strict.
    """
    with np.errstate(all="ignore"):  # numbers may be of any size: too large a factor is Inf
        return Findings(_found(evidence, strict=strict), looked_at=evidence.extent)


def _found(evidence: Evidence, *, strict: bool) -> list[Finding]:
    failed = list[Finding]()

    def tried(make: Callable[..., _T], otherwise: _T, *given: Any) -> _T:
        """The result, or something else if that fails: it must not void what others find."""
        try:
            return make(*given)
        except Exception as error:
            if strict:
                raise
            failed.append(_failure(make.__name__, error, evidence))
            return otherwise

    skipped = tried(skipped_steps, [], evidence)
    of_scaler = tried(_of_scaler, [], evidence, skipped)
    evidence = tried(without_steps_of_idle, evidence, evidence.without_skipped(skipped))
    step = tried(first_step, None, evidence)
    known = evidence if step is None else evidence.before(step)
    found = [one for rule in RULES for one in _applied(rule, known, strict=strict)]
    found = _of_each_kind(tried(with_hooks_named, found, found, known))
    found = tried(causes_first, found, found)
    every = tried(follow_ups_beneath, found, found, known)
    ends = _applied(non_finite, evidence, strict=strict)
    ends = tried(with_hooks_named, ends, ends, evidence)
    origins = [found for found in every if _may_lead_to_non_finite(found)]
    if ends and origins:
        # It may be what these grew to: the origin comes first, and then what nobody should miss.
        first = origins[0]
        every.remove(first)
        every = [replace(first, severity="alert"), *ends, *every]
    else:
        every = [*ends, *every]
    return by_severity([*every, *of_scaler, *failed])


def _of_scaler(evidence: Evidence, skipped: Sequence[int]) -> list[Finding]:
    return [*overflow(evidence, skipped)]


def _may_lead_to_non_finite(found: Finding) -> bool:
    """True for what grows to Inf, and for what makes it grow."""
    return not _LEADS_TO_NON_FINITE.isdisjoint(one.kind for one in with_consequences([found]))


def _applied(rule: Rule, evidence: Evidence, *, strict: bool) -> list[Finding]:
    """The findings of a rule; if it fails, that it did."""
    try:
        return [*rule(evidence)]
    except Exception as error:  # one rule that fails must not void what others find
        if strict:
            raise
        return [_failure(rule.__name__, error, evidence)]


def _failure(name: str, error: Exception, evidence: Evidence) -> Finding:
    text = f"the rule {name!r} failed: {type(error).__name__}: {error}"
    return Finding("rule_failed", "note", "", name, evidence.last_step, np.nan, "", text, _REPORT)


def _of_each_kind(every: list[Finding]) -> list[Finding]:
    """The first finding of each kind, the others of it beneath."""
    return [
        replace(first, consequences=tuple(rest), severity=_worst([first, *rest]))
        for first, *rest in grouped(every, _kind).values()
    ]


def _kind(found: Finding) -> tuple[str, str]:
    """Its kind; that of users' own rules is one of different things."""
    return found.kind, found.quantity.partition(".")[0] if found.kind in _OWN else ""


def _worst(every: list[Finding]) -> Severity:
    return SEVERITIES[min(SEVERITIES.index(found.severity) for found in every)]
