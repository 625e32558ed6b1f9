"""What follows from a finding is beneath it."""

from dataclasses import replace

import pytest

from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.followed import follow_ups_beneath
from tests.findings.given import evidence, knowing

MODEL = evidence({(f"{block}.{part}", "OutputRMS"): 1.0 for block in "ab" for part in "xyz"})
FROZEN = knowing(MODEL, frozen=frozenset({"b.x"}))


def of(kind, severity, module, step=0, value=1.0):
    return Finding(kind, severity, module, "WeightNorm", step, value, "", "it is so", "look")


def beneath(cause, *others):
    return [
        (one.kind, one.module, [effect.module for effect in one.consequences])
        for one in follow_ups_beneath([*others, cause], MODEL)
    ]


def test_weights_whose_steps_are_rounded_away_follow_from_steps_that_are_too_small():
    cause = of("small_steps", "warning", "", value=2e-7)
    assert beneath(cause, of("no_update", "alert", "a.x")) == [("small_steps", "", ["a.x"])]
    (led,) = follow_ups_beneath([of("no_update", "alert", "a.x"), cause], MODEL)
    assert led.severity == "alert"


@pytest.mark.parametrize(("value", "module"), [(2e-5, "a.x"), (2e-7, "")])
def test_steps_that_no_format_rounds_away_are_no_reason_for_it(value, module):
    cause = of("small_steps", "warning", "", value=value)
    assert len(beneath(cause, of("no_update", "alert", module))) == 2


def test_what_a_weight_of_zero_cuts_off_is_beneath_it_and_what_lies_elsewhere_is_not():
    others = [of("zero_gradient", "alert", "a.x"), of("missing_gradient", "warning", "b.y")]
    others += [of("zero_output", "alert", "b.z"), of("outlier", "warning", "a.y")]
    kept = beneath(of("zero_weight", "alert", "b.y"), *others)
    assert kept == [("zero_weight", "b.y", ["a.x", "b.y", "b.z"]), ("outlier", "a.y", [])]


@pytest.mark.parametrize(
    ("module", "step", "is_led"), [("b.x", 9, True), ("a.x", 9, False), ("b.x", 4, False)]
)
def test_what_dies_later_and_behind_what_grew_follows_from_it(module, step, is_led):
    grown = of("wild_output", "warning", "a.z", step=5)
    kept = beneath(grown, of("share_of_trouble", "alert", module, step))
    assert ("wild_output", "a.z", [module]) in kept if is_led else len(kept) == 2


def test_a_gradient_of_zero_behind_an_output_of_zero_follows_from_it():
    cause = of("zero_output", "alert", "b.x", step=5)
    assert beneath(cause, of("zero_gradient", "alert", "b.y", 5))[0][2] == ["b.y"]
    assert len(beneath(cause, of("zero_gradient", "alert", "a.y", 5))) == 2


def test_what_gets_worse_once_the_rate_was_raised_follows_from_it():
    cause = of("raised_rate", "warning", "", step=5)
    later = [of("large_steps", "alert", "", 6), of("divergence", "alert", "", 7)]
    assert len(beneath(cause, *later)[0][2]) == 2
    assert len(beneath(cause, of("large_steps", "alert", "", 4))) == 2


def test_choices_that_collapse_follow_from_entries_that_no_gradient_reaches():
    cause = of("detached", "warning", "a.x")
    assert beneath(cause, of("rank_collapse", "warning", "a.x", 9))[0][2] == ["a.x"]
    assert len(beneath(cause, of("rank_collapse", "warning", "b.x", 9))) == 2


def test_causes_of_causes_hold_all_of_it_flat():
    others = [of("share_of_trouble", "alert", "b.x", 9), of("wild_output", "warning", "a.z", 5)]
    cause = of("unbounded_loss", "alert", "", 2)
    assert beneath(cause, *others) == [("unbounded_loss", "", ["a.z", "b.x"])]


@pytest.mark.parametrize(("step", "is_led"), [(68, True), (0, False)])
def test_a_gradient_that_a_turned_sign_brings_to_zero_follows_from_it(step, is_led):
    kept = beneath(of("turned_sign", "alert", "b.y"), of("zero_gradient", "alert", "b.x", step))
    assert len(kept) == (1 if is_led else 2)


def test_others_stay_as_they_are():
    every = [of("outlier", "alert", "a.x"), of("loss_spike", "note", "")]
    assert follow_ups_beneath(every, MODEL) == every


def test_gradients_that_are_all_zero_follow_from_a_softmax_of_one_element():
    silent = of("zero_gradient", "alert", "")
    assert beneath(of("softmax_axis", "warning", "head"), silent) == [
        ("softmax_axis", "head", [""])
    ]
    assert len(beneath(of("softmax_axis", "warning", "gate", value=32.0), silent)) == 2


@pytest.mark.parametrize(
    ("module", "step", "is_led"), [("b.x", 5, True), ("a.x", 9, False), ("b.x", 4, False)]
)
def test_what_is_odd_behind_a_hook_that_changes_values_follows_from_it(module, step, is_led):
    hook = of("changed_by_hook", "warning", "a.z", step=5)
    kept = beneath(hook, of("outlier", "alert", module, step))
    assert ("changed_by_hook", "a.z", [module]) in kept if is_led else len(kept) == 2


@pytest.mark.parametrize("kind", ["changed_between", "stream_jump"])
@pytest.mark.parametrize(("step", "is_led"), [(5, True), (4, False)])
def test_what_is_odd_since_values_changed_between_two_modules_follows_from_it(kind, step, is_led):
    changed = of(kind, "warning", "b.x", step=5)
    kept = beneath(changed, of("outlier", "alert", "a.y", step))
    assert (kind, "b.x", ["a.y"]) in kept if is_led else len(kept) == 2


@pytest.mark.parametrize(
    ("module", "step", "is_led"),
    [("", 9, True), ("a.x", 9, True), ("b.y", 9, False), ("", 3, False)],
)
def test_what_weights_do_by_a_setting_of_the_optimizer_follows_from_it(module, step, is_led):
    setting = of("odd_setting", "warning", module, step=5 if step == 3 else 0)
    kept = beneath(setting, of("drift", "alert", "a.x", step))
    assert ("odd_setting", module, ["a.x"]) in kept if is_led else len(kept) == 2


@pytest.mark.parametrize(
    ("cause", "effect", "is_led"),
    [
        (of("odd_loss", "warning", ""), of("drift", "alert", "", 9), True),
        (of("odd_loss", "warning", ""), of("zero_output", "alert", "a.x"), False),
        (of("detached", "alert", ""), of("zero_weight", "alert", "a.x"), True),
        (of("detached", "warning", "a.y"), of("zero_weight", "alert", "a.x"), False),
        (of("wild_input", "warning", "a.x"), of("outlier", "alert", "a.z"), True),
        (of("zero_output", "alert", "a.y"), of("outlier", "alert", "b.x", 1), True),
        (of("zero_output", "alert", "a.y", 5), of("outlier", "alert", "b.x", 1), False),
        (of("zero_output", "alert", "a.y"), of("outlier", "alert", "a.x", 1), False),
    ],
)
def test_what_comes_of_the_loss_the_data_and_of_zeros_follows_from_them(cause, effect, is_led):
    kept = beneath(cause, effect)
    assert (kept == [(cause.kind, cause.module, [effect.module])]) == is_led
    assert len(kept) == 2 - is_led


def test_steps_that_are_too_small_follow_from_rows_that_are_all_alike():
    cause = of("rank_collapse", "warning", "b.z")
    assert beneath(cause, of("small_steps", "alert", "", 1)) == [("rank_collapse", "b.z", [""])]
    late = of("rank_collapse", "warning", "b.z", 30)
    assert len(beneath(late, of("small_steps", "alert", "", 1))) == 2


@pytest.mark.parametrize(("step", "is_led"), [(9, True), (4, False)])
def test_a_loss_that_rises_as_a_parameter_does_follows_from_it(step, is_led):
    cause = of("wild_parameter", "warning", "a.z", 9)
    kept = beneath(cause, of("divergence", "alert", "", step))
    assert kept == [("wild_parameter", "a.z", [""])] if is_led else len(kept) == 2


def test_attention_that_copies_follows_from_a_loss_that_falls_to_nothing():
    cause = of("trivial_loss", "warning", "", 19)
    kept = beneath(cause, of("attention_collapse", "alert", "a.x", 20))
    assert kept == [("trivial_loss", "", ["a.x"])]


@pytest.mark.parametrize(("module", "is_led"), [("b.x", True), ("a.x", False)])
def test_a_loss_that_rises_follows_from_what_grows_though_it_is_frozen(module, is_led):
    effect = of("divergence", "alert", "", 12)
    every = follow_ups_beneath([effect, of("growth", "warning", module, 30)], FROZEN)
    assert len(every) == (1 if is_led else 2)


def test_what_attention_makes_of_norms_that_do_not_normalise_follows_from_them():
    cause = of("odd_norm", "warning", "a.x")
    kept = beneath(cause, of("attention_collapse", "alert", "a.y"), of("outlier", "warning", "a.y"))
    assert kept == [("odd_norm", "a.x", ["a.y", "a.y"])]


@pytest.mark.parametrize(
    ("severity", "module", "step", "is_led"),
    [
        ("warning", "", 9, True),
        ("note", "", 9, False),
        ("warning", "a.x", 9, False),
        ("warning", "", 4, False),
    ],
)
def test_weights_that_all_leave_their_size_after_a_loss_has_jumped_follow_from_it(
    severity, module, step, is_led
):
    kept = beneath(of("loss_spike", severity, "", 9), of("drift", "alert", module, step))
    assert kept == [("loss_spike", "", [module])] if is_led else len(kept) == 2


def test_numbers_of_a_module_whose_forward_is_odd_are_beneath_it():
    others = [of("missing_residual", "warning", "a.x"), of("outlier", "warning", "a.y")]
    elsewhere = of("outlier", "warning", "b.x")
    told = beneath(of("odd_forward", "warning", "a"), *others, elsewhere)
    assert told == [("odd_forward", "a", ["a.x", "a.y"]), ("outlier", "b.x", [])]


@pytest.mark.parametrize(("module", "n"), [("a", 1), ("a.x", 1), ("a.y", 2), ("", 2)])
def test_the_forward_that_a_missing_mask_makes_odd_is_beneath_it(module, n):
    cause = of("missing_mask", "warning", "a.x")
    assert len(beneath(cause, of("odd_forward", "warning", module))) == n


def test_what_one_module_that_stands_several_times_leads_to_is_beneath_it():
    cause = of("shared_entries", "note", "a")
    kept = beneath(cause, of("stale_statistics", "warning", "a.x"))
    assert kept == [("shared_entries", "a", ["a.x"])]


@pytest.mark.parametrize(("value", "is_led"), [(170.0, True), (0.01, False)])
def test_weights_that_all_grow_do_so_by_steps_that_are_too_large(value, is_led):
    kept = beneath(of("large_steps", "alert", ""), of("drift", "alert", "", value=value))
    assert (kept == [("large_steps", "", [""])]) == is_led


@pytest.mark.parametrize(
    ("cause", "effect"),
    [
        ("ended_rate", "no_update"),
        ("moving_target", "faded_output"),
        ("faded_output", "plateau"),
        ("wild_input", "large_steps"),
        ("scaled_clipping", "lost_steps"),
        ("leaked_target", "held_targets"),
        ("misplaced_schedule", "ended_rate"),
        ("turned_plateau", "ended_rate"),
    ],
)
def test_what_says_more_leads(cause, effect):
    kept = beneath(of(cause, "warning", ""), of(effect, "alert", ""))
    assert kept == [(cause, "", [""])]


def test_a_part_without_numbers_stands_where_the_first_module_in_it_does():
    """As of a weight that all layers of a list have too large."""
    cause = of("wild_parameter", "warning", "b")
    effects = [of("wild_output", "alert", name) for name in ("a.z", "b.x", "", "elsewhere")]
    told = {module: led for _, module, led in beneath(cause, *effects)}
    assert told == {"b": ["b.x"], "": [], "a.z": [], "elsewhere": []}


@pytest.mark.parametrize(
    ("kind", "severity", "step", "is_led"),
    [
        ("outlier", "alert", 0, True),
        ("torn_view", "warning", 0, True),
        ("torn_view", "note", 0, False),
        ("weight_jump", "alert", 30, False),
        ("dropout_in_evaluation", "warning", 0, False),
    ],
    ids=["a number", "the structure", "a note", "late", "of evaluation"],
)
def test_a_plateau_is_beneath_whatever_is_wrong_early_on(kind, severity, step, is_led):
    known = evidence({("a.x", "WeightNorm"): 1.0})
    every = [replace(of(kind, severity, "a.x"), step=step), of("plateau", "warning", "")]
    assert len(follow_ups_beneath(every, known)) == 2 - is_led


def test_what_goes_wrong_in_evaluation_mode_is_beneath_it_from_then_on():
    cause = replace(of("evaluation_mode", "warning", ""), step=10)
    later = replace(of("large_steps", "alert", ""), step=12)
    before = replace(of("wild_parameter", "alert", "a.x"), step=2)
    first, second = follow_ups_beneath([later, before, cause], MODEL)
    assert (first.kind, first.severity, second.kind) == (
        "evaluation_mode",
        "alert",
        "wild_parameter",
    )


@pytest.mark.parametrize(("module", "is_led"), [("a", True), ("a.x", True), ("b.y", False)])
def test_a_weight_that_decay_alone_moves_follows_from_its_gradient_of_zero(module, is_led):
    cause = of("zero_gradient", "alert", "a.z")
    cause = replace(cause, consequences=(of("zero_gradient", "alert", "a.x"),))
    kept = follow_ups_beneath([of("odd_steps", "warning", module), cause], MODEL)
    assert (len(kept) == 1) == is_led
