"""The size of the optimizer's steps."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings import Attributes, Evidence, GroupSettings, Watched
from taiyi_fx.findings.rules.optimizer.steps import odd_steps, step_sizes, weight_jumps
from tests.findings.given import FACTS, evidence, knowing


def steps(ratio, weight=1.0):
    numbers = {(f"h.{i}", "UpdateRatio.weight"): ratio for i in range(4)}
    return evidence({**numbers, **{(f"h.{i}", "WeightNorm"): weight for i in range(4)}})


def test_steps_as_large_as_the_weights_are_an_alert():
    (found,) = step_sizes(steps(np.where(np.arange(40) > 5, 0.5, 1e-3)))
    assert (found.kind, found.severity, found.step, found.module) == ("large_steps", "alert", 6, "")


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (1, "by 0.5 of their size at once"),
        (4, "by 0.5 of their size a step, in the mean of 4 step"),
    ],
)
def test_large_steps_are_counted_as_they_are_read_and_the_largest_is_named(gap, words):
    late = np.arange(40) > 5
    sizes = [np.where(late, x, 1e-3) for x in (0.3, 0.5)]
    sizes += [np.where(np.arange(40) == 9, 0.25, 1e-3), np.full(40, 0.1)]
    numbers = {(f"h.{i}", "UpdateRatio.weight"): x * gap for i, x in enumerate(sizes)}
    numbers |= {(f"h.{i}", "WeightNorm"): np.ones(40) for i in range(4)}
    (found,) = step_sizes(evidence(numbers, gap * np.arange(40)))
    assert f"the weights of 'h.1' {words}" in found.text
    assert found.text.endswith("and those of 2 more of 4 by 0.2 or more in a step")
    assert found.value == 0.5


def test_steps_of_nothing_are_a_warning():
    (found,) = step_sizes(steps(1e-9))
    assert (found.kind, found.severity) == ("small_steps", "warning")


@pytest.mark.parametrize(("end", "is_told"), [(1e-4, True), (0.1, False)])
def test_a_gain_that_began_at_zero_and_is_nothing_yet_is_no_measure_of_steps(end, is_told):
    numbers = {(f"h.{i}", "UpdateRatio.weight"): 5e-6 for i in range(4)}
    numbers |= {("gain", "UpdateRatio.weight"): 1 / np.arange(1, 41)}
    numbers |= {("gain", "ParameterRMS.weight"): np.linspace(0.0, end, 40)}
    numbers |= {("gain", "WeightNorm"): np.linspace(0.0, end, 40)}
    told = [one.kind for one in step_sizes(evidence(numbers))]
    assert told == ["small_steps"] * is_told


@pytest.mark.parametrize(("usual", "largest", "is_told"), [(5e-6, 2e-4, True), (2e-5, 2e-4, False)])
def test_one_weight_may_take_larger_steps_where_most_take_far_smaller_ones(usual, largest, is_told):
    numbers = {(f"h.{i}", "UpdateRatio.weight"): usual for i in range(4)}
    numbers |= {("h.3", "UpdateRatio.weight"): largest}
    assert bool([*step_sizes(evidence(numbers))]) == is_told


@pytest.mark.parametrize(
    ("ratio", "weight"),
    [
        (1e-3, 1.0),
        (np.where(np.arange(40) == 5, 0.5, 1e-3), 1.0),
        (1 / (1 + np.arange(40.0)), np.arange(40.0)),
        (2.4 / np.arange(1, 13), np.arange(1.0, 13.0)),
        (np.where(np.arange(40) > 20, 0.0, 1e-3), 1.0),
    ],
    ids=["usual", "once", "began at zero", "began near zero, looked at early", "ended"],
)
def test_other_steps_are_none(ratio, weight):
    assert [*step_sizes(steps(ratio, weight))] == []


def one_of(ratio):
    numbers = {(f"h.{i}", "UpdateRatio.weight"): 1e-3 for i in range(4)}
    return evidence({**numbers, ("h.2", "UpdateRatio.weight"): ratio})


def test_large_steps_of_one_from_the_start_are_its_own():
    numbers = {(f"h.{i}", "UpdateRatio.weight"): 1e-3 for i in range(4)}
    numbers |= {("h.2", "UpdateRatio.weight"): 0.5, ("h.2", "WeightNorm"): 1.0}
    (found,) = step_sizes(evidence(numbers))
    assert (found.kind, found.module) == ("large_steps", "h.2")


@pytest.mark.parametrize(
    ("size", "last", "severity"), [(0.3, 6, "note"), (0.6, 6, "alert"), (0.3, 70, "alert")]
)
def test_large_steps_of_one_in_the_beginning_alone_are_a_note(size, last, severity):
    """As those of a last layer, which begins small."""
    values = np.where(np.arange(100) <= last, size, 0.01)
    numbers = {(f"h.{i}", "UpdateRatio.weight"): np.full(100, 1e-3) for i in range(4)}
    numbers |= {("h.2", "UpdateRatio.weight"): values, ("h.2", "WeightNorm"): np.ones(100)}
    (found,) = step_sizes(evidence(numbers))
    assert (found.severity, found.module) == (severity, "h.2")
    assert " more of " not in found.text


@pytest.mark.parametrize(
    ("loss", "other", "severity"), [(0.3, 0.9, "note"), (0.6, 0.9, "alert"), (0.3, 1.1, "alert")]
)
def test_those_of_several_are_a_note_where_losses_come_down_all_the_same(loss, other, severity):
    values = np.where(np.arange(100) <= 6, 0.3, 0.01)
    numbers = {(f"h.{i}", "UpdateRatio.weight"): np.full(100, 1e-3) for i in range(4)}
    for name in ("h.1", "h.2"):
        numbers |= {(name, "UpdateRatio.weight"): values, (name, "WeightNorm"): np.ones(100)}
    for name, last in (("loss", loss), ("loss of boxes", other)):
        numbers["", name] = np.linspace(1, last, 100)
    (found,) = step_sizes(evidence(numbers))
    assert found.severity == severity
    assert ("nothing is wrong" in found.advice) == (severity == "note")


def test_weights_that_all_begin_tiny_are_measured_by_what_they_come_to():
    """As the tables of word2vec, by Adam at its usual rate."""
    rms = np.linspace(0.003, 0.02, 12)
    numbers = {}
    for name in ("u", "v"):
        numbers[name, "ParameterRMS.weight"] = rms
        numbers[name, "WeightNorm"] = 90 * rms
        numbers[name, "UpdateRatio.weight"] = np.append(0.0, np.diff(rms) / rms[:-1])
    numbers["u", "UpdateRatio.weight"][:4] = 0.0, 0.5, 0.35, 0.3
    assert [*step_sizes(evidence(numbers))] == []


def with_a_tiny_head(ratio, *, size=0.01, grown=0.05):
    """Three weights of elements of 0.2, and one of tiny elements that grow fivefold."""
    numbers = {}
    for name in ("a", "b", "c", "head"):
        rms = np.linspace(size, grown, 12) / 2 if name == "head" else np.full(12, 0.2)
        numbers[name, "ParameterRMS.weight"] = rms
        numbers[name, "WeightNorm"] = 10 * rms
        numbers[name, "UpdateRatio.weight"] = ratio if name == "head" else np.full(12, 0.02)
    return evidence(numbers)


def test_a_weight_of_tiny_elements_is_to_grow_and_no_measure_of_its_steps():
    """As the last layer of a policy, which begins with a gain of 0.01, by RMSprop's first steps."""
    assert [*step_sizes(with_a_tiny_head(np.array([0.0, 3.3, 1.2, *9 * [0.3]])))] == []
    (found,) = step_sizes(with_a_tiny_head(np.array([0.0, 330.0, 120.0, *9 * [30.0]])))
    assert (found.kind, found.module) == ("large_steps", "head")


def test_large_steps_at_many_times_the_usual_rate_are_the_schedule_s():
    numbers = {(f"h.{i}", "UpdateRatio.weight"): 1e-3 for i in range(4)}
    leaps = np.where(np.arange(40) < 3, 1.2, 1e-3)
    numbers |= {("h.2", "UpdateRatio.weight"): leaps, ("h.2", "WeightNorm"): 1.0}
    rates = {("", "LearningRate"): np.maximum(60 * 0.7 ** np.arange(40), 1)}
    known = evidence(numbers)
    shifted = [s._replace(steps=s.steps + 1) for s in known.series]
    (found,) = step_sizes(known.with_series([*shifted, *evidence(rates).series]))
    assert (found.kind, found.module) == ("large_steps", "")


def test_large_steps_of_a_block_while_others_take_small_ones_are_the_block_s():
    names = ["a", "h.1.up", "h.1.down", "b", "c", "d"]
    numbers = {(name, "UpdateRatio.weight"): 1e-3 for name in names}
    for name in ("h.1.up", "h.1.down"):
        numbers[name, "UpdateRatio.weight"] = np.where(np.arange(40) > 20, 0.5, 1e-3)
        numbers[name, "WeightNorm"] = 1.0
    (found,) = step_sizes(evidence(numbers))
    assert (found.module, found.step) == ("h.1", 21)


def test_the_end_of_a_schedule_is_no_sign_of_small_steps():
    numbers = {(f"h.{i}", "UpdateRatio.weight"): 1e-9 for i in range(4)}
    assert [*step_sizes(evidence(numbers, range(500, 540)))] == []


@pytest.mark.parametrize("ratio", [1.0, 1e-6])
def test_steps_of_one_that_are_of_another_size_are_a_warning(ratio):
    (found,) = odd_steps(one_of(ratio))
    assert (found.kind, found.module, found.severity) == ("odd_steps", "h.2", "warning")


@pytest.mark.parametrize(("ratio", "count"), [(1e-6, 0), (1.0, 1)])
def test_a_gain_that_a_norm_behind_divides_away_hardly_moves(ratio, count):
    known = one_of(ratio)
    of_norms = {(s.name, q): 1.0 for s in known.series for q in ("InputRMS", "OutputRMS")}
    of_norms |= {(s.name, "ParameterRMS.weight"): 1.0 for s in known.series}
    every = (*known.series, *evidence(of_norms).series)
    assert len([*odd_steps(known.with_series(every))]) == count


@pytest.mark.parametrize("ratio", [0.0, 3e-2, 3e-5])
def test_none_at_all_and_some_that_are_near_are_not_odd(ratio):
    assert [*odd_steps(one_of(ratio))] == []


def test_a_weight_that_something_else_writes_into_is_named_with_the_step():
    (found,) = weight_jumps(one_of(np.where(np.arange(40) == 25, 1.4, 1e-3)))
    assert (found.kind, found.module, found.step) == ("weight_jump", "h.2", 25)


def test_a_weight_that_is_made_anew_is_named_beside_large_steps():
    (found,) = weight_jumps(one_of(np.where(np.arange(40) == 25, 1.4, 0.05)))
    assert (found.kind, found.module, found.step) == ("weight_jump", "h.2", 25)


def test_a_weight_that_goes_astray_in_all_its_steps_is_not_made_anew():
    assert [*weight_jumps(one_of(np.where(np.arange(40) == 25, 51.0, 0.23)))] == []


def test_jumps_in_the_first_steps_are_none():
    ratio = np.where(np.arange(40) == 3, 1.4, 1e-3)
    assert [*weight_jumps(one_of(ratio))] == []
    assert [*weight_jumps(steps(ratio))] == []


@pytest.mark.parametrize(("first", "count"), [(0.0, 0), (1.0, 1)])
def test_steps_of_a_weight_that_was_zero_are_of_any_size(first, count):
    numbers = {(f"h.{i}", "UpdateRatio.weight"): 1e-4 for i in range(4)}
    numbers |= {("h.2", "UpdateRatio.weight"): 1 / (np.arange(40) + 1)}
    numbers |= {("h.2", "WeightNorm"): first + np.arange(40)}
    assert len([*odd_steps(evidence(numbers))]) == count


def in_branches(of_branch):
    """Three layers, and three in branches behind a gain of zero, with the ratios of these."""
    numbers = {}
    for i in range(3):
        numbers |= {(f"h.{i}", "OutputGradRMS"): 1.0, (f"h.{i}", "UpdateRatio.weight"): 3e-2}
        branch = f"h.{i}.branch"
        numbers[branch, "OutputGradRMS"] = np.minimum(np.arange(40.0), 1.0)
        numbers[branch, "UpdateRatio.weight"] = of_branch[i]
        numbers[f"h.{i}.gain", "WeightNorm"] = np.arange(40.0)
    return evidence(numbers)


def test_steps_of_branches_that_begin_at_nothing_are_no_measure_of_others():
    assert [*odd_steps(in_branches([5e-5, 6e-5, 7e-5]))] == []


def test_one_branch_whose_steps_are_not_those_of_others_is_odd():
    (found,) = odd_steps(in_branches([5e-5, 6e-5, 7e-2]))
    assert found.module == "h.2.branch"


@pytest.mark.parametrize(("gain", "is_told"), [(1e-6, False), (1e-2, True)])
def test_steps_of_gains_are_compared_with_those_of_gains(gain, is_told):
    numbers = {}
    for i in range(4):
        for name, size, count in ((f"h.{i}.fc", 0.1, 4096), (f"h.{i}.bn", 1.0, 64)):
            numbers[name, "WeightNorm"] = size * count**0.5
            numbers[name, "ParameterNorm.weight"] = size * count**0.5
            numbers[name, "ParameterRMS.weight"] = size
            numbers[name, "UpdateRatio.weight"] = 1e-3 if name.endswith("fc") else 1e-6
    numbers["h.2.bn", "UpdateRatio.weight"] = gain
    assert [one.module for one in odd_steps(evidence(numbers))] == ["h.2.bn"] * is_told


def test_steps_that_are_large_of_all_sooner_or_later_are_the_optimizer_s():
    numbers = {(name, "WeightNorm"): 1.0 for name in "abcd"}
    for i, name in enumerate("abcd"):
        numbers[name, "UpdateRatio.weight"] = np.where(np.arange(40) < i, 1e-3, 2.0)
    (found,) = step_sizes(evidence(numbers))
    assert (found.kind, found.module) == ("large_steps", "")


def test_a_jump_between_two_readings_is_named_by_all_of_it():
    steps = [*range(20), *range(20, 100, 4)]
    values = np.full(len(steps), 0.004)
    values[30] = 1.2 / 4  # at one of the four steps
    numbers = {(name, "UpdateRatio.weight"): np.full(len(steps), 0.004) for name in "abc"}
    (found,) = weight_jumps(
        evidence(numbers | {("b", "UpdateRatio.weight"): values * [*np.diff([-1, *steps])]}, steps)
    )
    assert (found.module, found.step) == ("b", steps[30])


def redrawn(after=0.01, size=1.0, modules="abcde"):
    ratio = np.where(np.arange(40) == 25, 1.4, np.where(np.arange(40) > 25, after, 0.01))
    numbers = {(name, "UpdateRatio.weight"): ratio for name in modules}
    kept = np.where(np.arange(40) < 25, 1.0, size)
    numbers |= {(name, "WeightNorm"): 8 * kept for name in "abcdefghij"}
    numbers |= {(name, "ParameterRMS.weight"): kept for name in "abcdefghij"}
    usual = {(name, "UpdateRatio.weight"): 0.01 for name in "abcdefghij" if name not in modules}
    return evidence(numbers | usual)


def test_weights_that_are_all_made_anew_at_one_step_are_told_once():
    (found,) = weight_jumps(redrawn(modules="abcdefgh"))
    assert (found.kind, found.module, found.step) == ("weight_jump", "", 25)
    assert "the weights of 8 modules change by about 1.4 of their size" in found.text


@pytest.mark.parametrize("changed", [{"after": 0.9}, {"size": 4.0}])
def test_weights_that_an_optimizer_leads_astray_are_not_made_anew(changed):
    assert [*weight_jumps(redrawn(modules="abcdefgh", **changed))] == []


def test_a_layer_of_several_weights_that_jump_is_named_once():
    jump = np.where(np.arange(40) == 25, 2.0, 0.01)
    numbers = {("lstm", f"UpdateRatio.weight_{part}_l0"): jump for part in ("ih", "hh")}
    usual = {(name, "UpdateRatio.weight"): 0.01 for name in ("words", "head")}
    known = (
        Watched.made(n, FACTS["UpdateRatio.weight"], np.arange(40), v + np.zeros(40))
        for n, v in (numbers | usual).items()
    )
    (found,) = weight_jumps(Evidence.of(known))
    assert (found.module, found.step) == ("lstm", 25)


def clipped(max_norm):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(30):
        x = torch.randn(32, 8)
        optimizer.zero_grad()
        (watched(x) - x[:, :4]).square().mean().backward()
        watched.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
    return [one for one in watched.monitor.findings if one.kind == "small_steps"]


def test_small_steps_of_gradients_that_are_clipped_to_next_to_nothing_say_so():
    (found,) = clipped(1e-3)
    times = float(found.text.partition("make steps ")[2].split()[0])
    assert 100 < times < 2000  # of norms of some 0.1 to 1, clipped to 0.001
    assert clipped(1.0) == []


@pytest.mark.parametrize(("rate", "is_told"), [(4e-6, True), (1e-3, False)])
def test_small_steps_of_a_schedule_that_returns_a_rate_say_so(rate, is_told):
    known = steps(1e-5)
    known = known.with_series([*known.series, *evidence({("", "LearningRate"): rate}).series])
    own = GroupSettings(("h.0",), 0.9, False, "adam", second=0.999, initial=2e-3)
    (found,) = step_sizes(knowing(known, group_settings=[own]))
    assert ("LambdaLR returns a factor" in found.text) == is_told


def test_steps_that_are_small_by_the_learning_rate_alone_are_not_said_to_be_cut():
    known = steps(1e-9)
    sgd = GroupSettings(tuple(f"h.{i}" for i in range(4)), 0.0, False, "sgd")
    gradients = {(f"h.{i}", "WeightGradNorm"): 1.0 for i in range(4)}
    known = known.with_series([*known.series, *evidence(gradients).series])
    known = knowing(known, group_settings=[sgd], groups={f"h.{i}": (0, 1e-9) for i in range(4)})
    (found,) = step_sizes(known)
    assert "track" not in found.text
    (found,) = step_sizes(knowing(known, groups={f"h.{i}": (0, 1e-6) for i in range(4)}))
    assert "make steps 1e+03 times as large" in found.text


def of_sizes(last, **sizes):
    numbers = {(name, "UpdateRatio.weight"): 1e-4 for name in "abc"}
    numbers |= {(name, "ParameterRMS.weight"): 0.2 for name in "abc"}
    numbers |= {("head", "UpdateRatio.weight"): last, ("head", "ParameterRMS.weight"): 0.01}
    numbers |= {(name, "ParameterRMS.gamma"): size for name, size in sizes.items()}
    numbers |= {(name, "ParameterNorm.gamma"): 8 * size for name, size in sizes.items()}
    numbers |= {("a", "WeightNorm"): 20.0}
    return [one.module for one in odd_steps(evidence(numbers))]


@pytest.mark.parametrize(("ratio", "is_told"), [(0.05, False), (2.0, True)])
def test_a_head_of_tiny_elements_is_to_grow(ratio, is_told):
    assert of_sizes(ratio) == ["head"] * is_told


@pytest.mark.parametrize(("size", "is_told"), [(1e-6, False), (1.0, True)])
def test_behind_gains_of_next_to_nothing_steps_are_small(size, is_told):
    assert of_sizes(1e-9, scale=size) == ["head"] * is_told


@pytest.mark.parametrize(
    ("largest", "given", "count"),
    [(0.45, 1.0, 0), (0.9, 1.0, 1), (0.45, 3.0, 1)],
    ids=["before a norm", "larger", "before no norm"],
)
def test_first_steps_that_make_one_weight_before_a_norm_larger_settle(largest, given, count):
    """As those of the first convolution of GoogLeNet."""
    numbers = {(f"h.{i}.conv", "UpdateRatio.weight"): 1e-2 for i in range(12)}
    numbers |= {(f"h.{i}.conv", "WeightNorm"): 6.4 for i in range(12)}
    numbers |= {(f"h.{i}.conv", "ParameterRMS.weight"): 0.1 for i in range(12)}
    numbers |= {("h.0.conv", "UpdateRatio.weight"): largest * 0.7 ** np.arange(40)}
    numbers |= {("h.0.conv", "OutputRMS"): 1.0, ("h.0.norm", "InputRMS"): given}
    numbers |= {("h.0.norm", "OutputRMS"): 1.0, ("h.0.norm", "WeightNorm"): 4.0}
    numbers |= {("h.0.norm", "ParameterRMS.weight"): 1.0}
    order = ["h.0.conv", "h.0.norm", *(f"h.{i}.conv" for i in range(1, 12))]
    assert len([*step_sizes(knowing(evidence(numbers), order=order))]) == count


def test_behind_gains_of_next_to_nothing_small_steps_of_most_are_no_measure():
    numbers = {(f"h.{i}", "UpdateRatio.weight"): 1e-6 for i in range(4)}
    numbers |= {("head", "UpdateRatio.weight"): 1e-3}
    numbers |= {(name, "ParameterRMS.weight"): 0.1 for name, _ in numbers}
    numbers |= {(name, "WeightNorm"): 6.4 for name, _ in numbers}
    assert [one.module for one in odd_steps(evidence(numbers))] == ["head"]
    numbers |= {("h.0", "ParameterRMS.gamma"): 1e-6, ("h.0", "ParameterNorm.gamma"): 8e-6}
    assert [*odd_steps(evidence(numbers))] == []


def test_kernels_of_a_convolution_by_channels_are_compared_with_matrices():
    """As those of MobileNet, which have as few elements as the gain of a norm."""
    numbers = {(f"bn.{i}", "UpdateRatio.weight"): 1e-5 for i in range(4)}
    numbers |= {(f"bn.{i}", "ParameterRMS.weight"): 1.0 for i in range(4)}
    numbers |= {(f"bn.{i}", "WeightNorm"): 4.0 for i in range(4)}
    numbers |= {("conv", "UpdateRatio.weight"): 1e-1, ("conv", "ParameterRMS.weight"): 0.1}
    numbers |= {("conv", "WeightNorm"): 1.2, ("fc", "ParameterRMS.weight"): 0.1}
    numbers |= {("fc", "WeightNorm"): 0.1 * 30000**0.5}
    assert [one.module for one in odd_steps(evidence(numbers))] == ["conv"]
    kernels = Attributes("torch.nn.Conv2d", {}, (0, 0), (("", (16, 1, 3, 3)),))
    assert [*odd_steps(knowing(evidence(numbers), attributes={"conv": kernels}))] == []


@pytest.mark.parametrize(("count", "is_told"), [(1, False), (2, False), (32, True)])
def test_many_forwards_in_a_step_are_told_with_steps_that_are_too_large(count, is_told):
    known = replace(steps(np.where(np.arange(40) > 5, 0.5, 1e-3)), forwards_per_step=count)
    (found,) = step_sizes(known)
    assert found.text.endswith("; there are 32 forwards in each step") == is_told
    assert found.advice.startswith("Divide the loss of each") == is_told


@pytest.mark.parametrize(("first", "is_told"), [(0.0, False), (0.02, True)])
def test_a_weight_that_grows_from_zero_may_step_by_many_times_its_size(first, is_told):
    """As a table of which one row alone is used."""
    ratios, sizes = np.full(60, 1e-3), np.full(60, 1.0)
    ratios[20], sizes[:20], sizes[0] = 13.0, 0.02, first
    numbers = {(f"h.{i}", "UpdateRatio.weight"): np.full(60, 1e-3) for i in range(4)}
    numbers |= {("bias", "UpdateRatio.weight"): ratios, ("bias", "WeightNorm"): sizes}
    assert ["weight_jump"] * is_told == [one.kind for one in weight_jumps(evidence(numbers))]
