"""Parameters that do not learn, where others do."""

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings import GroupSettings
from taiyi_fx.findings.rules.gradients.missing import missing_gradients
from taiyi_fx.findings.rules.optimizer.learning import no_update, zero_gradients
from tests.findings.given import evidence, knowing

MOVES = 1 + np.arange(40) / 100
NAMES = [f"h.{i}" for i in range(5)]


def model(still=(), silent=(), frozen=()):
    numbers = {}
    for name in NAMES:
        numbers[name, "WeightNorm"] = 1.0 if name in (*still, *frozen) else MOVES
        if name not in frozen:
            numbers[name, "WeightGradNorm"] = 0.0 if name in silent else 0.5
    return evidence(numbers)


def test_all_is_well_where_all_move():
    for rule in (no_update, zero_gradients, missing_gradients):
        assert [*rule(model())] == []


def test_a_weight_that_never_moves_though_it_has_a_gradient_is_named():
    (found,) = no_update(model(still=["h.2"]))
    assert (found.module, found.severity) == ("h.2", "alert")


def test_where_no_weight_moves_it_is_the_optimizer():
    (found,) = no_update(model(still=NAMES))
    assert found.module == ""


def test_a_step_that_rounding_takes_away_is_no_missing_update():
    numbers = {("a", "WeightNorm"): 1.0, ("a", "WeightGradNorm"): 1e-9}
    numbers |= {("b", "WeightNorm"): MOVES, ("b", "WeightGradNorm"): 1.0}
    assert [*no_update(evidence(numbers))] == []


def test_of_gradients_that_are_zero_the_last_in_the_model_is_named_with_the_others():
    (found,) = zero_gradients(model(silent=["h.0", "h.1"]))
    assert found.module == "h.1"
    assert "and so is that of 'h.0', earlier in the model" in found.text


def test_a_gradient_that_was_zero_for_a_while_is_none():
    numbers = {(name, "WeightGradNorm"): 0.5 for name in NAMES}
    numbers["h.1", "WeightGradNorm"] = np.where(np.arange(40) < 20, 0.0, 0.5)
    assert [*zero_gradients(evidence(numbers))] == []


def test_a_block_that_never_moves_is_named_as_a_whole():
    names = ["words", "h.0.up", "h.0.down", "h.1.up", "h.1.down"]
    numbers = {(name, "WeightNorm"): 1.0 if "h.1" in name else MOVES for name in names}
    numbers |= {(name, "WeightGradNorm"): 0.5 for name in names}
    (found,) = no_update(evidence(numbers))
    assert (found.module, found.consequences) == ("h.1", ())
    assert found.text.startswith("'h.1' as a whole never changes")


def test_where_all_stop_long_before_the_end_it_is_the_optimizer():
    ended = np.minimum(MOVES, 1.05)
    numbers = {(name, "WeightNorm"): ended for name in NAMES}
    numbers |= {(name, "WeightGradNorm"): 0.5 for name in NAMES}
    (found,) = no_update(evidence(numbers))
    assert (found.module, found.step) == ("", 5)
    numbers["h.0", "WeightNorm"] = MOVES
    assert "" not in [found.module for found in no_update(evidence(numbers))]


def test_lbfgs_ends_by_itself():
    moves = np.minimum(MOVES, MOVES[12])
    numbers = {(name, "WeightNorm"): moves for name in NAMES}
    numbers |= {(name, "WeightGradNorm"): 1e-6 for name in NAMES}
    severities = {}
    for rule in ("sgd", "lbfgs"):
        group = GroupSettings((), 0.0, False, rule)
        (found,) = no_update(knowing(evidence(numbers), group_settings=[group]))
        severities[rule] = found.severity
    assert severities == {"sgd": "alert", "lbfgs": "note"}


def test_gradients_that_are_all_zero_are_the_model_s():
    (found,) = zero_gradients(model(silent=NAMES))
    assert (found.kind, found.module, found.severity) == ("zero_gradient", "", "alert")


def test_a_norm_that_is_rounded_while_elements_move_is_none():
    numbers = {(name, "WeightNorm"): 1.0 if name == "h.2" else MOVES for name in NAMES}
    numbers |= {(name, "WeightGradNorm"): 0.5 for name in NAMES}
    numbers["h.2", "UpdateRatio.weight"] = 1e-8
    assert [*no_update(evidence(numbers))] == []


def test_what_no_optimizer_has_is_told_soon_and_for_sure():
    numbers = {(name, "WeightNorm"): 1.0 if name == "h.4" else MOVES[:5] for name in NAMES}
    numbers |= {(name, "WeightGradNorm"): 0.5 for name in NAMES}
    numbers["h.4", "WeightNorm"] = np.ones(5)
    known = evidence(numbers)
    assert [*no_update(known)] == []
    (found,) = no_update(knowing(known, left_out=frozenset({"h.4"}), strangers=2))
    assert (found.module, found.severity) == ("h.4", "alert")
    assert "which has 2 parameters that the model does not have" in found.text
    assert found.advice.startswith("The optimizer was not given it")
    (found,) = no_update(knowing(known, left_out=frozenset({"h.4"})))
    assert found.text.endswith("it is in no group of the optimizer")
    # One that moves all the same is that of another optimizer.
    assert [*no_update(knowing(known, left_out=frozenset({"h.3"})))] == []


def test_a_weight_that_is_frozen_with_the_last_gradient_of_a_training_before_is_none():
    known = model(still=["h.2"])
    assert [one.module for one in no_update(known)] == ["h.2"]
    assert [*no_update(knowing(known, frozen=frozenset({"h.2"})))] == []


@pytest.mark.parametrize("known", ["UpdateRatio", "ParameterNorm"])
@pytest.mark.parametrize(("value", "count"), [(0.0, 1), (1e-3, 0)])
def test_a_parameter_that_is_no_weight_and_never_changes_is_named(known, value, count):
    """By a step of nothing, or as it stays zero, beside which a step has no ratio."""
    numbers = {("a", "WeightNorm"): 1 + np.arange(40) / 1000, ("a", "WeightGradNorm"): 1.0}
    numbers[("", "ParameterGradNorm.token")] = 1.0
    numbers[("", f"{known}.token")] = value
    found = [*no_update(evidence(numbers))]
    assert len(found) == count
    assert all("the parameter 'token' never changes" in one.text for one in found)


def test_weights_that_stay_for_most_of_the_steps_are_told_where_numbers_are_rare():
    steps = np.append(np.arange(20), [20, 40, 60, 80, 100])
    values = np.append(MOVES[:20], np.full(5, 2.0))
    numbers = {(name, "WeightNorm"): values for name in NAMES}
    numbers |= {(name, "WeightGradNorm"): np.ones(25) for name in NAMES}
    (found,) = no_update(evidence(numbers, steps))
    assert (found.module, found.step) == ("", 20)


def test_a_gradient_that_is_zero_from_late_on_is_named():
    late = np.where(np.arange(40) < 30, 1.0, 0.0)
    numbers = {("a", "WeightGradNorm"): late, ("b", "WeightGradNorm"): 1.0}
    numbers |= {(name, "WeightNorm"): 1.0 for name in "ab"}
    (found,) = zero_gradients(evidence(numbers))
    assert (found.module, found.step) == ("a", 30)


def test_a_weight_that_is_overwritten_at_each_step_but_the_first_never_changes():
    step = np.where(np.arange(40) < 1, 0.4, 0.0)
    numbers = {(name, "WeightGradNorm"): 1.0 for name in "ab"}
    numbers |= {("a", "WeightNorm"): np.where(np.arange(40) < 1, 1.0, 1.1)}
    numbers |= {("b", "WeightNorm"): 1 + np.arange(40) / 40, ("b", "UpdateRatio.weight"): 0.1}
    (found,) = no_update(evidence(numbers | {("a", "UpdateRatio.weight"): step}))
    assert found.module == "a"


def test_a_weight_that_an_optimizer_had_until_a_step_is_named_with_it():
    numbers = {(name, "WeightNorm"): MOVES for name in NAMES}
    numbers["h.2", "WeightNorm"] = np.minimum(MOVES, MOVES[20])
    numbers |= {(name, "WeightGradNorm"): 0.5 for name in NAMES}
    known = knowing(evidence(numbers), left_out=frozenset({"h.2"}))
    (found,) = no_update(known)
    assert (found.module, found.step, found.severity) == ("h.2", 20, "alert")
    assert "in no group of the optimizer any more" in found.text
    numbers["h.2", "WeightGradNorm"] = np.where(np.arange(40) < 20, 0.5, 0.0)
    assert [*no_update(knowing(evidence(numbers), left_out=frozenset({"h.2"})))] == []
    assert [*no_update(evidence(numbers))] == []


@pytest.mark.parametrize(("gradient", "count"), [(1e-9, 0), (1e-3, 1)])
def test_a_gradient_of_rounding_alone_moves_nothing(gradient, count):
    """As of the last bias of a judge by the hinge loss, while all are within the margin."""
    numbers = {(name, "WeightNorm"): MOVES for name in NAMES}
    numbers |= {(name, "WeightGradNorm"): 0.5 for name in NAMES}
    numbers |= {("h.4", "ParameterGradNorm.bias"): gradient, ("h.4", "UpdateRatio.bias"): 0.0}
    assert len([*no_update(evidence(numbers))]) == count


@pytest.mark.parametrize(("group", "told"), [({"h.2": (0, 1e-3)}, 0), ({}, 1)])
def test_a_bias_beside_a_weight_that_the_optimizer_moves_had_no_gradient_then(group, told):
    """As that of a judge within the margins of a hinge, read after the other player's backward."""
    numbers = {("h.2", "UpdateRatio.bias"): 0.0, ("h.2", "ParameterGradNorm.bias"): 1.0}
    numbers |= {(name, "UpdateRatio.weight"): 1e-3 for name in NAMES}
    known = model()
    known = known.with_series([*known.series, *evidence(numbers).series])
    assert len([*no_update(knowing(known, groups=group))]) == told


@pytest.mark.parametrize(("count", "severity"), [(0, "note"), (40, "alert")])
def test_a_weight_of_which_the_optimizer_took_no_step_is_a_note(count, severity):
    """As DINO's last layer, whose gradient the loop takes out in the first epoch."""
    counts = dict.fromkeys(NAMES, 40) | {"h.2": count}
    (found,) = no_update(knowing(model(still=["h.2"]), step_counts=counts))
    assert (found.module, found.severity) == ("h.2", severity)
    assert ("its gradient is None by then" in found.text) == (severity == "note")


def test_of_a_weight_norm_the_part_that_is_trained_is_looked_at():
    numbers = {
        (name, quantity): value
        for (name, quantity), value in {
            ("g", "ParameterNorm.weight_g"): 8.0,
            ("g", "ParameterNorm.weight_v"): MOVES,
            ("g", "ParameterGradNorm.weight_v"): 50.0,
        }.items()
    }
    known = model()
    assert [*no_update(known.with_series([*known.series, *evidence(numbers).series]))] == []


DIES = np.where(np.arange(40) < 9, 1.0, 0.0)


@pytest.mark.parametrize(("pull", "given"), [(0.5, True), (0.0, False)])
def test_a_layer_that_is_given_zero_is_not_said_to_be_cut_off_from_the_loss(pull, given):
    numbers = {("fc2", "WeightGradNorm"): DIES, ("fc3", "WeightGradNorm"): DIES}
    numbers |= {("fc3", "InputRMS"): DIES, ("fc3", "OutputGradRMS"): pull}
    (found,) = zero_gradients(evidence(numbers | {("fc1", "WeightGradNorm"): 1.0}))
    assert ("as what it is given is" in found.text) == given
    assert ("reaches the loss" in found.advice) != given
    # The loss depends on a layer that is given nothing: on its bias.
    (of_all,) = zero_gradients(evidence(numbers))
    assert of_all.module == ("fc3" if given else "")


def test_weights_that_stay_as_their_gradients_are_zero_are_not_the_optimizers():
    numbers = {(name, "WeightNorm"): np.minimum(MOVES, MOVES[9]) for name in NAMES}
    for values, count in ((0.5, 1), (DIES, 0)):
        numbers |= {(name, "WeightGradNorm"): values for name in NAMES}
        assert len([*no_update(evidence(numbers))]) == count


@pytest.mark.parametrize(
    ("gradient", "is_told"), [(1.0 + np.arange(40), True), (1.0 + np.arange(40) % 5, False)]
)
def test_what_no_optimizer_has_is_said_to_add_up_its_gradient(gradient, is_told):
    numbers = {(name, "WeightNorm"): 1.0 if name == "h.4" else MOVES for name in NAMES}
    numbers |= {(name, "WeightGradNorm"): 0.5 for name in NAMES}
    known = evidence(numbers | {("h.4", "WeightGradNorm"): gradient})
    (found,) = no_update(knowing(known, left_out=frozenset({"h.4"})))
    assert found.text.endswith("clears its gradient, which adds up") == is_told
    (found,) = no_update(known)  # which an optimizer may have
    assert "adds up" not in found.text


@pytest.mark.parametrize(("is_reached", "count"), [(False, 0), (True, 1)])
def test_a_gradient_that_another_training_has_left_moves_nothing(is_reached, count):
    """As that of a teacher, which is called without gradients."""
    teacher, student = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    teacher(torch.randn(8, 4)).square().sum().backward()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
    watched = taiyi_fx.instrument(
        Pair(teacher, student, is_reached=is_reached), optimizer=optimizer
    )
    for step in range(12):
        watched(torch.randn(8, 4)).backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    found = [one for one in watched.monitor.findings if one.kind == "no_update"]
    assert [one.module for one in found] == ["teacher"] * count


class Pair(nn.Module):
    def __init__(self, teacher, student, *, is_reached):
        super().__init__()
        self.teacher, self.student, self.is_reached = teacher, student, is_reached

    def forward(self, x):
        with torch.set_grad_enabled(self.is_reached):
            wanted = self.teacher(x)
        return (self.student(x) - wanted).square().mean()


def test_where_gradients_have_come_to_nothing_the_end_is_a_note():
    moves = np.minimum(MOVES, MOVES[12])
    numbers = {(name, "WeightNorm"): moves for name in NAMES}
    falls = np.geomspace(1.0, 1e-8, len(MOVES))
    numbers |= {(name, "WeightGradNorm"): falls for name in NAMES}
    (found,) = no_update(evidence(numbers))
    assert found.severity == "note"
    assert "as gradients have come down to" in found.text
