"""Consequences put beneath their cause: a finding that follows from another is told with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from taiyi_fx.findings.causes import by_severity
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding

_LEAST_TOLD = "plateau"
"""A sign of nearly anything that is wrong early on, which says less than all else."""
_EARLY = 0.2
"""The share of the training until then."""
_OF_ANYTHING = frozenset(
    "plateau faded_output evaluation_gap overfitting undefined_evaluation undefined_metric "
    "dropout_in_evaluation parted_copies own_rule rule_failed".split()
)
"""Kinds that do not make a loss stay where it is: its like, and what evaluation alone meets."""
_ROUNDED = 1e-6
"""Steps beside the weight that float32 rounds away in some weights: half of its precision is 6e-8,
and the steps of one weight are several times smaller than those of others."""

Follows = Callable[[Finding, Finding, Evidence], bool]


def follow_ups_beneath(every: Sequence[Finding], evidence: Evidence) -> list[Finding]:
    """The findings, without those that follow from another, which has them beneath.

    A cause is as urgent as what follows from it, and stands where the first of them would.
    """
    left = [*every]
    for kind, follows in _FOLLOWING:
        for cause in [one for one in left if one.kind == kind]:
            left = _led_by(cause, left, follows, evidence)
    early = _EARLY * evidence.last_step
    reasons = (
        one
        for one in left
        if one.kind not in _OF_ANYTHING and one.severity != "note" and one.step <= early
    )
    for cause in [*reasons][:1]:
        left = _led_by(cause, left, {_LEAST_TOLD: _is_at_any_time}, evidence)
    return left


def _led_by(
    cause: Finding, every: list[Finding], follows: Mapping[str, Follows], evidence: Evidence
) -> list[Finding]:
    effects = [
        one for one in every if one.kind in follows and follows[one.kind](cause, one, evidence)
    ]
    if not effects:
        return every
    beneath = (
        part for one in effects for part in (replace(one, consequences=()), *one.consequences)
    )
    worst = by_severity([cause, *effects])[0].severity
    first = min(every.index(one) for one in (cause, *effects))
    led = replace(cause, severity=worst, consequences=(*cause.consequences, *beneath))
    before, after = every[:first], every[first:]
    return [*before, led, *(one for one in after if one is not cause and one not in effects)]


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


def _is_around_it(cause: Finding, effect: Finding, _: Evidence) -> bool:
    """True for the module itself and those that it lies in."""
    return effect.module != "" and f"{cause.module}.".startswith(f"{effect.module}.")


def _is_of_all_or_it(cause: Finding, effect: Finding, _: Evidence) -> bool:
    """True for weights that decay makes smaller: all of them, or those of the module itself."""
    return cause.module in ("", effect.module)


def _is_of_all_or_it_from_then(cause: Finding, effect: Finding, evidence: Evidence) -> bool:
    return effect.step >= cause.step and _is_of_all_or_it(cause, effect, evidence)


def _is_at_any_time(cause: Finding, effect: Finding, _: Evidence) -> bool:
    return True


def _is_of_all(cause: Finding, effect: Finding, _: Evidence) -> bool:
    return cause.module == ""


def _is_growth_of_all(cause: Finding, effect: Finding, _: Evidence) -> bool:
    return cause.module == "" == effect.module and effect.value > 1


def _is_shrinkage_of_all(_: Finding, effect: Finding, __: Evidence) -> bool:
    """True for weights that decay alone moves, as no gradient comes to them."""
    return effect.module == "" and effect.value < 1


def _is_of_fading_head(_: Finding, effect: Finding, evidence: Evidence) -> bool:
    """True for the last weight, which comes to less, without decay, where it can tell nothing."""
    own = evidence.weights.get(effect.module)
    if own is None or evidence.optimizer.decays.get(effect.module, 0.0) > 0:
        return False
    is_last = effect.module == max(evidence.weights, key=lambda name: evidence.modules[name])
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


_OF_NOTHING: Mapping[str, Follows] = dict.fromkeys(
    "zero_output missing_gradient rank_collapse outlier odd_steps stale_statistics".split(),
    _is_in_its_block,
)
_OF_SIZE = ("wild_output", "growth", "drift", "wild_parameter", "exploding_gradient", "outlier")
_OF_DATA = (
    "zero_output share_of_trouble zero_gradient vanishing_gradient loss_spike faded_output"
).split()
_OF_REACH = ("odd_loss", "zero_output", "zero_gradient", "plateau")
_OF_LOSS = (
    "gradients_not_cleared changed_gradient drift large_steps small_steps vanishing_gradient"
).split()
_OF_ZEROS = "outlier rank_collapse missing_residual share_of_trouble zero_gradient".split()
_OF_INPUT = (
    "outlier wild_output saturated gradient_jump share_of_trouble drift large_steps foreign_steps "
    "zero_output zero_gradient divergence loss_spike".split()
)
_OF_NORM = (
    "attention_collapse attention_logit_growth outlier stream_jump wild_output "
    "growing_values".split()
)
_OF_SINGLE = "vanishing_gradient rank_collapse zero_output faded_output".split()
_OF_GROWTH: Mapping[str, Follows] = dict.fromkeys(
    ("share_of_trouble", "zero_gradient", "zero_output", "saturated"), _is_later_and_behind
)
_OF_SETTINGS = (
    "drift growth wild_output large_steps divergence attention_collapse loss_spike wild_parameter "
    "sorted_batches"
).split()
_OF_RATE = (
    "large_steps divergence loss_spike weight_jump drift growth wild_output "
    "share_of_trouble zero_output zero_gradient saturated rank_collapse attention_collapse "
    "attention_logit_growth wild_parameter gradient_jump outlier no_update "
    "exploding_gradient".split()
)
_OF_HOOK = (  # of values, which make gradients
    "gradient_jump outlier wild_output growth share_of_trouble zero_gradient saturated".split()
)
_OF_EPSILON = "vanishing_gradient outlier wild_parameter odd_steps".split()
_OF_SUMS = "large_steps divergence loss_spike drift odd_steps".split()
_OF_END = "divergence unbounded_loss loss_spike growth drift wild_output".split()
_OF_SIGN = "unbounded_loss wild_parameter growth divergence loss_spike wild_output".split()
_OF_PULL = "moving_target faded_output rank_collapse drift trivial_loss".split()
_OF_FADING = (
    "wild_input growing_values wild_output large_steps batch_axis saturated share_of_trouble "
    "rank_collapse"
).split()
"""And by which outputs come to be the same for all samples."""
_OF_MESSAGES = ("vanishing_gradient", "overfitting", "evaluation_gap")
_OF_EVALUATION = (
    "stale_statistics dropout_in_evaluation wild_input copied_targets refitted averaged_parameters "
    "fitted_to_each class_sampler evaluation_inputs torn_view far_entry"
).split()
_FOLLOWING: tuple[tuple[str, Mapping[str, Follows]], ...] = (
    ("small_steps", {"no_update": _is_rounded_away}),
    ("softmax_axis", {"zero_gradient": _is_of_one}),
    ("odd_loss", dict.fromkeys(_OF_LOSS, _is_at_any_time)),
    (
        "detached",
        {
            **dict.fromkeys(("zero_weight", "zero_output"), _is_of_all),
            "rank_collapse": _is_of_it,
        },
    ),
    ("missing_mask", {"odd_forward": _is_around_it}),
    ("odd_forward", dict.fromkeys(("missing_residual", "missing_norm", "outlier"), _is_of_it)),
    ("no_update", dict.fromkeys(("gradients_not_cleared", "changed_gradient"), _is_of_it)),
    (
        "large_decay",
        {"drift": _is_of_all_or_it, "vanishing_gradient": _is_of_all, "small_steps": _is_of_all},
    ),
    ("late_clipping", dict.fromkeys((*_OF_RATE, "faded_output"), _is_at_any_time)),
    ("scaled_clipping", dict.fromkeys(("lost_steps", "small_steps"), _is_at_any_time)),
    ("misplaced_schedule", {"ended_rate": _is_at_any_time}),
    ("turned_plateau", {"ended_rate": _is_at_any_time}),
    ("leaked_target", {"held_targets": _is_at_any_time}),
    ("odd_setting", dict.fromkeys(("small_steps", "odd_steps"), _is_of_all)),
    ("odd_setting", dict.fromkeys(_OF_SETTINGS, _is_of_all_or_it_from_then)),
    (
        "raised_rate",
        {**dict.fromkeys(_OF_RATE, _is_from_then), "sorted_batches": _is_at_any_time},
    ),
    ("unbalanced_router", dict.fromkeys(("dead_experts", "zero_gradient"), _is_in_its_block)),
    ("changed_by_hook", dict.fromkeys(_OF_HOOK, _is_from_then_and_behind)),
    ("stream_jump", dict.fromkeys(_OF_HOOK, _is_from_then)),
    ("changed_between", dict.fromkeys(_OF_HOOK, _is_from_then)),
    ("wild_loss", dict.fromkeys(_OF_SIZE, _is_later)),
    ("sorted_batches", dict.fromkeys(_OF_DATA, _is_at_any_time)),
    ("loss_spike", {"drift": _is_of_all_after_a_jump}),
    ("trivial_loss", {"attention_collapse": _is_at_any_time}),
    ("lost_steps", {"small_steps": _is_at_any_time}),
    ("detached", {"divergence": _is_at_any_time}),
    ("evaluation_mode", {**dict.fromkeys(_OF_RATE, _is_from_then), "evaluation_gap": _is_later}),
    *((kind, {"evaluation_gap": _is_at_any_time}) for kind in _OF_EVALUATION),
    ("growth", {"divergence": _is_of_frozen}),
    ("odd_norm", dict.fromkeys(_OF_SINGLE, _is_at_any_time)),
    ("odd_norm", dict.fromkeys(_OF_NORM, _is_at_any_time)),
    ("rank_collapse", {"small_steps": _is_of_all_since}),
    ("wild_parameter", {"divergence": _is_from_then, "wild_output": _is_from_then_and_behind}),
    ("zero_weight", {"zero_gradient": _is_before, **_OF_NOTHING}),
    ("zero_output", dict.fromkeys(_OF_ZEROS, _is_from_then_and_behind)),
    (
        "zero_output",
        {
            **dict.fromkeys(("vanishing_gradient", "gradient_jump"), _is_of_it_so_far),
            "outlier": _is_of_gradients,
        },
    ),
    ("plateau", {"drift": _is_of_fading_head}),
    ("drift", {"faded_output": _is_of_all}),
    ("large_steps", {"drift": _is_growth_of_all, "sorted_batches": _is_at_any_time}),
    ("unreachable_targets", dict.fromkeys(_OF_REACH, _is_at_any_time)),
    ("unsquashed_loss", dict.fromkeys(("odd_loss", "loss_spike"), _is_at_any_time)),
    ("large_epsilon", dict.fromkeys(_OF_EPSILON, _is_at_any_time)),
    ("flat_function", {"zero_gradient": _is_at_any_time}),
    ("flat_derivative", dict.fromkeys(("no_update", "plateau"), _is_at_any_time)),
    ("rising_rate", dict.fromkeys(_OF_RATE, _is_from_then)),
    ("endless_target", dict.fromkeys(_OF_END, _is_at_any_time)),
    ("single_class", dict.fromkeys(("trivial_loss", "rank_collapse"), _is_at_any_time)),
    ("unused_part", {"endless_target": _is_at_any_time}),
    ("unused_offset", {"unreached_rows": _is_at_any_time}),
    *(
        (kind, dict.fromkeys(_OF_MESSAGES, _is_at_any_time))
        for kind in ("unused_offset", "unreached_rows", "returned_messages", "torn_edges")
    ),
    ("vanishing_gradient", {"drift": _is_shrinkage_of_all, "outlier": _is_later}),
    ("ended_rate", {"no_update": _is_of_all, "small_steps": _is_at_any_time}),
    ("moving_target", {"faded_output": _is_at_any_time}),
    ("gradients_not_cleared", dict.fromkeys(_OF_SUMS, _is_at_any_time)),
    ("turned_sign", dict.fromkeys((*_OF_PULL, *_OF_SIGN), _is_at_any_time)),
    ("turned_sign", dict.fromkeys(("zero_gradient", "share_of_trouble"), _is_later)),
    ("pulled_alone", dict.fromkeys(_OF_PULL, _is_at_any_time)),
    ("faded_output", {"plateau": _is_at_any_time}),
    ("large_decay", {"faded_output": _is_of_all_or_it}),
    ("shared_entries", {"stale_statistics": _is_of_it}),
    ("wild_input", dict.fromkeys(_OF_INPUT, _is_at_any_time)),
    ("growth", _OF_GROWTH),
    ("wild_output", _OF_GROWTH),
    ("unbounded_loss", dict.fromkeys(_OF_SIZE, _is_later)),
    ("growing_values", dict.fromkeys(("wild_output", "wild_start"), _is_at_any_time)),
    ("zero_output", {"odd_steps": _is_before}),
    (
        "batch_axis",
        dict.fromkeys("zero_gradient rank_collapse odd_steps".split(), _is_at_any_time),
    ),
    *((kind, {"faded_output": _is_at_any_time}) for kind in _OF_FADING),
)
"""The kind of each cause, near ones first, with the kinds of what may follow from it, and the test
whether it does."""
