"""The kinds of findings that lead to others, and when they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding

_ROUNDED = 1e-6
"""Steps beside the weight that float32 rounds away in some weights: half of its precision is 6e-8,
and the steps of one weight are several times smaller than those of others."""

Follows = Callable[[Finding, Finding, Evidence], bool]
"""Asked of a cause, of what may follow from it, and of the evidence, whether it does."""


def _is_at_any_time(cause: Finding, effect: Finding, _: Evidence) -> bool:
    return True


def _is_rounded_away(cause: Finding, effect: Finding, _: Evidence) -> bool:
    return cause.value <= _ROUNDED and effect.module != ""


def _is_of_one(cause: Finding, effect: Finding, _: Evidence) -> bool:
    """True for a softmax over one element, which passes no gradient back."""
    return cause.value == 1 and cause.quantity != "AttentionEntropy"


def _is_of_it_so_far(cause: Finding, effect: Finding, _: Evidence) -> bool:
    return effect.step >= cause.step


def _is_of_gradients(cause: Finding, effect: Finding, _: Evidence) -> bool:
    return effect.step >= cause.step and effect.quantity.startswith("OutputGrad")


def _is_of_it(cause: Finding, effect: Finding, _: Evidence) -> bool:
    """True for the module itself and what lies in it: what no optimizer has, none clears."""
    return cause.module != "" and f"{effect.module}.".startswith(f"{cause.module}.")


def _is_of_any_of_it(cause: Finding, effect: Finding, _: Evidence) -> bool:
    """True for modules that have it, or lie in or around those: decay alone moves their weights."""
    every = (one.module for one in (cause, *cause.consequences) if one.kind == cause.kind)
    return any(
        f"{a}.".startswith(f"{b}.")
        for name in every
        for a, b in ((name, effect.module), (effect.module, name))
        if name and effect.module
    )


def _is_around_it(cause: Finding, effect: Finding, _: Evidence) -> bool:
    """True for the module itself and those that it lies in."""
    return effect.module != "" and f"{cause.module}.".startswith(f"{effect.module}.")


def _is_of_all_or_it(cause: Finding, effect: Finding, _: Evidence) -> bool:
    """True for weights that decay makes smaller: all of them, or those of the module itself."""
    return cause.module in ("", effect.module)


def _is_of_all_or_it_from_then(cause: Finding, effect: Finding, evidence: Evidence) -> bool:
    return effect.step >= cause.step and _is_of_all_or_it(cause, effect, evidence)


def _is_of_all(cause: Finding, effect: Finding, _: Evidence) -> bool:
    return cause.module == ""


def _is_growth_of_all(cause: Finding, effect: Finding, _: Evidence) -> bool:
    return cause.module == "" == effect.module and effect.value > 1


def _is_shrinkage_of_all(_: Finding, effect: Finding, __: Evidence) -> bool:
    """True for weights that decay alone moves, as no gradient comes to them."""
    return effect.module == "" and effect.value < 1


def _is_of_fading_head(_: Finding, effect: Finding, evidence: Evidence) -> bool:
    """True for the last weight, which comes to less, without decay, where it can tell nothing."""
    own = evidence.parameters.weights.get(effect.module)
    if own is None or evidence.optimizer.decays.get(effect.module, 0.0) > 0:
        return False
    is_last = effect.module == max(
        evidence.parameters.weights, key=lambda name: evidence.modules[name]
    )
    return is_last and 0 < effect.value < own.values[0]


def _is_of_all_after_a_jump(cause: Finding, effect: Finding, evidence: Evidence) -> bool:
    """True for weights that all leave their size once a loss has jumped by more than usual."""
    return cause.severity != "note" and _is_of_all_since(cause, effect, evidence)


def _is_of_frozen(cause: Finding, effect: Finding, evidence: Evidence) -> bool:
    """True for what grows though nothing trains it: code writes into it."""
    return cause.module.partition("@")[0] in evidence.model.frozen


def _is_of_all_since(cause: Finding, effect: Finding, _: Evidence) -> bool:
    return effect.module == "" and effect.step >= cause.step


def _is_before(cause: Finding, effect: Finding, evidence: Evidence) -> bool:
    is_before = _place(effect, evidence) < _place(cause, evidence)
    return is_before or _is_in_its_block(cause, effect, evidence)


def _is_in_its_block(cause: Finding, effect: Finding, _: Evidence) -> bool:
    block = cause.module.rpartition(".")[0]
    return effect.module == cause.module or (block != "" and effect.module.startswith(f"{block}."))


def _is_later(cause: Finding, effect: Finding, _: Evidence) -> bool:
    return effect.step > cause.step


def _is_later_and_behind(cause: Finding, effect: Finding, evidence: Evidence) -> bool:
    return effect.step > cause.step > 0 and _is_behind(cause, effect, evidence)


def _is_from_then(cause: Finding, effect: Finding, _: Evidence) -> bool:
    return effect.step >= cause.step > 0


def _is_from_then_and_behind(cause: Finding, effect: Finding, evidence: Evidence) -> bool:
    return effect.step >= cause.step and _is_behind(cause, effect, evidence)


def _is_behind(cause: Finding, effect: Finding, evidence: Evidence) -> bool:
    return len(evidence.modules) > _place(effect, evidence) >= _place(cause, evidence)


def _place(found: Finding, evidence: Evidence) -> int:
    """The place of what a finding is of; of a part without numbers the first in it, or the end."""
    places, within = evidence.modules, f"{found.module}."
    if found.module in places:
        return places[found.module]
    inner = (place for name, place in places.items() if name.startswith(within))
    return min(inner, default=len(places))


class Edge(NamedTuple):
    """Kinds of findings that lead to others.

    Attributes:
        causes: The kinds that do, separated by spaces.
        effects: The kinds that may follow from each.
        follows: Says of two findings whether one follows from the other.
    """

    causes: str
    effects: str
    follows: Follows = _is_at_any_time


_OF_LARGE_STEPS = (
    "large_steps divergence loss_spike weight_jump drift growth wild_output share_of_trouble "
    "zero_output zero_gradient saturated rank_collapse attention_collapse attention_logit_growth "
    "wild_parameter gradient_jump outlier no_update exploding_gradient"
)
"""What steps of the optimizer lead to that are too large, from then on."""

_OF_VALUES = "gradient_jump outlier wild_output growth share_of_trouble zero_gradient saturated"
"""What values lead to that are of another size, and the gradients that these make."""

_OF_GROWTH = "wild_output growth drift wild_parameter exploding_gradient outlier"
"""What grows with a loss that nothing bounds."""

EDGES: tuple[Edge, ...] = (
    Edge("small_steps", "no_update", _is_rounded_away),
    Edge("softmax_axis", "zero_gradient", _is_of_one),
    Edge(
        "odd_loss",
        "gradients_not_cleared changed_gradient drift large_steps small_steps vanishing_gradient",
    ),
    Edge("detached", "zero_weight zero_output", _is_of_all),
    Edge("detached", "rank_collapse", _is_of_it),
    Edge("missing_mask", "odd_forward", _is_around_it),
    Edge(
        "turned_mask",
        "zero_gradient zero_output attention_collapse rank_collapse odd_steps plateau",
        _is_of_all,
    ),
    Edge(
        "grown_scores",
        "attention_collapse attention_logit_growth attention_sink vanishing_gradient odd_steps "
        "plateau",
    ),
    Edge("odd_forward", "missing_residual missing_norm outlier", _is_of_it),
    Edge("no_update", "gradients_not_cleared changed_gradient", _is_of_it),
    Edge("large_decay", "drift", _is_of_all_or_it),
    Edge("large_decay", "vanishing_gradient small_steps", _is_of_all),
    Edge("late_clipping", f"{_OF_LARGE_STEPS} faded_output"),
    Edge("early_clearing", f"{_OF_LARGE_STEPS} unbounded_loss wild_input input_spike input_drift"),
    Edge("clipped_between", "cleared_between changed_gradient small_steps"),
    Edge("scaled_clipping", "lost_steps small_steps"),
    Edge("misplaced_schedule turned_plateau", "ended_rate overrun_schedule"),
    Edge("faint_rate", "small_steps no_update plateau untrained_backbone ended_rate"),
    Edge("unrestored_average", f"{_OF_LARGE_STEPS} foreign_steps lost_steps relapses"),
    Edge("relapses", "loss_spike sorted_batches"),
    Edge("overrun_schedule", "small_steps no_update ended_rate raised_rate"),
    Edge("leaked_target", "held_targets"),
    Edge("rounded_times", "rounded_input"),
    Edge("rounded_times rounded_input", "wild_input"),
    Edge("foreign_noise", "drift"),
    Edge("foreign_condition", "divergence plateau"),
    Edge("mistaken_tensor", f"{_OF_LARGE_STEPS} vanishing_gradient plateau"),
    Edge("changed_data", "input_drift overfitting evaluation_gap evaluation_inputs"),
    Edge(
        "taken_by_number parted_pairs turned_mixture turned_grid foreign_noise left_sorted",
        "plateau overfitting evaluation_gap",
    ),
    Edge("odd_setting", "small_steps odd_steps", _is_of_all),
    Edge(
        "odd_setting",
        "drift growth wild_output large_steps divergence attention_collapse loss_spike "
        "wild_parameter sorted_batches",
        _is_of_all_or_it_from_then,
    ),
    Edge("raised_rate", _OF_LARGE_STEPS, _is_from_then),
    Edge("raised_rate", "sorted_batches"),
    Edge("unbalanced_router", "dead_experts zero_gradient", _is_in_its_block),
    Edge("changed_by_hook", _OF_VALUES, _is_from_then_and_behind),
    Edge("stream_jump changed_between", _OF_VALUES, _is_from_then),
    Edge("wild_loss", _OF_GROWTH, _is_later),
    Edge(
        "sorted_batches",
        "zero_output share_of_trouble zero_gradient vanishing_gradient loss_spike faded_output",
    ),
    Edge(
        "remade_optimizer raised_rate misplaced_schedule sorted_batches foreign_steps", "relapses"
    ),
    Edge("loss_spike", "drift", _is_of_all_after_a_jump),
    Edge("trivial_loss", "attention_collapse"),
    Edge("lost_steps", "small_steps"),
    Edge("detached", "divergence"),
    Edge("evaluation_mode", _OF_LARGE_STEPS, _is_from_then),
    Edge("evaluation_mode", "evaluation_gap", _is_later),
    Edge(
        "stale_statistics dropout_in_evaluation wild_input copied_targets refitted "
        "averaged_parameters fitted_to_each class_sampler evaluation_inputs torn_view "
        "far_entry",
        "evaluation_gap",
    ),
    Edge("growth", "divergence", _is_of_frozen),
    Edge("odd_norm", "vanishing_gradient rank_collapse zero_output faded_output"),
    Edge(
        "odd_norm",
        "attention_collapse attention_logit_growth outlier stream_jump wild_output growing_values",
    ),
    Edge("rank_collapse", "small_steps", _is_of_all_since),
    Edge("wild_parameter", "divergence", _is_from_then),
    Edge("wild_parameter", "wild_output", _is_from_then_and_behind),
    Edge("zero_weight", "zero_gradient", _is_before),
    Edge(
        "zero_weight",
        "zero_output missing_gradient rank_collapse outlier odd_steps stale_statistics",
        _is_in_its_block,
    ),
    Edge(
        "zero_output",
        "outlier rank_collapse missing_residual share_of_trouble zero_gradient",
        _is_from_then_and_behind,
    ),
    Edge("zero_output", "vanishing_gradient gradient_jump", _is_of_it_so_far),
    Edge("zero_output", "outlier", _is_of_gradients),
    Edge("plateau", "drift", _is_of_fading_head),
    Edge("drift", "faded_output", _is_of_all),
    Edge("large_steps", "drift", _is_growth_of_all),
    Edge("large_steps", "sorted_batches"),
    Edge("unreachable_targets", "odd_loss zero_output zero_gradient plateau"),
    Edge("unsquashed_loss", "odd_loss loss_spike"),
    Edge("large_epsilon", "vanishing_gradient outlier wild_parameter odd_steps"),
    Edge("flat_function", "zero_gradient"),
    Edge("flat_derivative", "no_update plateau"),
    Edge("rising_rate", _OF_LARGE_STEPS, _is_from_then),
    Edge("endless_target", "divergence unbounded_loss loss_spike growth drift wild_output"),
    Edge("single_class", "trivial_loss rank_collapse"),
    Edge("unused_part", "endless_target"),
    Edge("unused_offset", "unreached_rows"),
    Edge(
        "unused_offset unreached_rows returned_messages torn_edges",
        "vanishing_gradient overfitting evaluation_gap",
    ),
    Edge("vanishing_gradient", "drift", _is_shrinkage_of_all),
    Edge("vanishing_gradient", "outlier", _is_later),
    Edge("ended_rate", "no_update", _is_of_all),
    Edge("ended_rate", "small_steps"),
    Edge("moving_target", "faded_output"),
    Edge("zero_gradient", "odd_steps", _is_of_any_of_it),
    Edge("gradients_not_cleared", "large_steps divergence loss_spike drift odd_steps"),
    Edge(
        "turned_sign",
        "moving_target faded_output rank_collapse drift trivial_loss unbounded_loss "
        "wild_parameter growth divergence loss_spike wild_output",
    ),
    Edge("turned_sign", "zero_gradient share_of_trouble", _is_later),
    Edge("pulled_alone", "moving_target faded_output rank_collapse drift trivial_loss"),
    Edge("faded_output", "plateau"),
    Edge("large_decay", "faded_output", _is_of_all_or_it),
    Edge("shared_entries", "stale_statistics", _is_of_it),
    Edge(
        "wild_input",
        "outlier wild_output saturated gradient_jump share_of_trouble drift large_steps "
        "foreign_steps zero_output zero_gradient divergence loss_spike",
    ),
    Edge(
        "growth wild_output",
        "share_of_trouble zero_gradient zero_output saturated",
        _is_later_and_behind,
    ),
    Edge("unbounded_loss", _OF_GROWTH, _is_later),
    Edge("growing_values", "wild_output wild_start"),
    Edge("zero_output", "odd_steps", _is_before),
    Edge("batch_axis", "zero_gradient rank_collapse odd_steps"),
    Edge(
        "wild_input growing_values wild_output large_steps batch_axis saturated "
        "share_of_trouble rank_collapse",
        "faded_output",
    ),
)
"""All of them, near causes first: what follows from several is put beneath the first of these."""
