"""The odd one out among modules of one role."""

import numpy as np
import pytest

from taiyi_fx.findings import Attributes
from taiyi_fx.findings.rules.values.siblings import outliers
from tests.findings.given import evidence, knowing


def layers(odd, quantity="WeightNorm", n=6):
    numbers = {(f"h.{i}", quantity): 1.0 + i / 10 for i in range(n)}
    return evidence({**numbers, ("h.3", quantity): odd})


@pytest.mark.parametrize(
    ("odd", "times", "severity"),
    [(150.0, "116 times", "warning"), (1e-3, "of the median", "alert")],
)
def test_an_outlier_is_named_with_its_factor(odd, times, severity):
    (found,) = outliers(layers(odd))
    assert (found.module, found.quantity, found.severity) == ("h.3", "WeightNorm", severity)
    assert times in found.text


@pytest.mark.parametrize(
    "odd",
    [
        3.0,
        np.where((np.arange(40) // 5) == 1, 150.0, 1.0),
        np.where(np.arange(40) == 39, 150.0, 1.0),
    ],
    ids=["a little", "for five steps", "once"],
)
def test_what_is_near_or_does_not_last_is_none(odd):
    assert [*outliers(layers(odd))] == []


def test_one_that_begins_odd_is_named_though_training_makes_up_for_it():
    (found,) = outliers(layers(np.where(np.arange(40) < 10, 150.0, 1.0)))
    assert (found.module, found.step) == ("h.3", 0)


def test_what_stands_between_equal_modules_is_named_where_it_changes_values():
    numbers = {(f"h.{i}", q): 1.0 for i in range(6) for q in ("InputRMS", "OutputRMS")}
    numbers["h.3", "InputRMS"] = 3.0
    (found,) = outliers(evidence(numbers))
    assert found.module == "h.3"
    assert "InputRMS of 'h.3' to that of 'h.2' is 3" in found.text


def test_few_siblings_have_no_outlier():
    numbers = {("h.0", "WeightNorm"): 1.0, ("h.1", "WeightNorm"): 1.0, ("h.2", "WeightNorm"): 500.0}
    assert [*outliers(evidence(numbers))] == []


def test_modules_with_other_quantities_are_no_siblings():
    numbers = {(f"h.{i}", "WeightNorm"): 1.0 for i in range(4)}
    numbers |= {("h.9", "WeightNorm"): 500.0, ("h.9", "OutputRMS"): 1.0}
    assert [*outliers(evidence(numbers))] == []


def test_weights_come_before_what_is_computed_with_them():
    numbers = {(f"h.{i}", "OutputRMS"): 1.0 for i in range(5)}
    numbers |= {(f"h.{i}", "WeightNorm"): 1.0 for i in range(5)}
    numbers |= {("h.2", "WeightNorm"): 900.0, ("h.4", "OutputRMS"): 900.0}
    assert [found.module for found in outliers(evidence(numbers))] == ["h.2", "h.4"]


def test_a_module_that_makes_all_behind_it_small_is_named_by_the_factor():
    numbers = {}
    for i in range(6):
        numbers[f"h.{i}.fc", "OutputRMS"] = 1.0 if i < 3 else 1e-3
        numbers[f"h.{i}.act", "OutputRMS"] = 0.5 if i < 2 else 5e-4
    found, *_ = outliers(evidence(numbers))
    assert (found.module, found.severity) == ("h.2.act", "alert")
    assert found.quantity == "OutputRMS"
    assert "OutputRMS of 'h.2.act' to that of 'h.2.fc' is 0.0005" in found.text


def test_a_function_that_passes_a_large_gradient_back_is_before_the_named_module():
    numbers = {(f"h.{i}.fc", "OutputGradRMS"): 1e-2 if i < 4 else 1e-5 for i in range(8)}
    (found,) = outliers(evidence(numbers))
    assert found.module == "h.4.fc"
    assert "OutputGradRMS of 'h.3.fc' to that of 'h.4.fc'" in found.text


def test_a_series_of_zeros_is_no_outlier_and_makes_none():
    numbers = {(f"h.{i}", "OutputRMS"): 1.0 if i < 2 else 0.0 for i in range(6)}
    assert [*outliers(evidence(numbers))] == []


@pytest.mark.parametrize(("factor", "count"), [(3.2, 1), (1.5, 0)])
def test_among_equals_that_only_pass_on_a_little_is_odd(factor, count):
    numbers = {}
    for i in range(6):
        numbers[f"h.{i}.fc", "OutputRMS"] = numbers[f"h.{i}.fc", "WeightNorm"] = 1.0
        numbers[f"h.{i}.drop", "OutputRMS"] = factor if i == 2 else 1 + i / 1000
    found = [*outliers(evidence(numbers))]
    assert [one.module for one in found] == ["h.2.drop"] * count


def test_three_are_enough_to_compare_factors():
    numbers = {(f"h.{i}.norm", "InputRMS"): 1.0 if i < 2 else 1e3 for i in range(4)}
    (found,) = outliers(evidence(numbers))
    assert (found.module, found.quantity) == ("h.2.norm", "InputRMS")
    assert "InputRMS of 'h.2.norm' to that of 'h.1.norm'" in found.text


@pytest.mark.parametrize(("factor", "count"), [(50.0, 0), (500.0, 1)])
def test_beside_two_others_a_factor_of_their_widths_is_none(factor, count):
    numbers = {(f"h.{i}.norm", "InputRMS"): 1.0 if i < 2 else factor for i in range(4)}
    assert len([*outliers(evidence(numbers))]) == count


@pytest.mark.parametrize(("call", "count"), [("", 1), ("@1", 0)])
def test_what_a_later_call_is_given_may_come_from_elsewhere(call, count):
    numbers = {(f"h.{i}.fc{call}", "InputRMS"): 1.0 if i < 4 else 1e3 for i in range(8)}
    found = [f for f in outliers(evidence(numbers)) if "ratio" in f.text]
    assert len(found) == count


@pytest.mark.parametrize(("last", "count"), [(0.8, 0), (8.0, 1)])
def test_branches_that_grow_to_what_others_return_are_none(last, count):
    grows = np.geomspace(0.02, last, 40)
    numbers = {}
    for i in range(6):
        norm, branch = f"h.{i}.norm", f"h.{i}.out"
        numbers |= {(norm, "OutputRMS"): 1.0, (norm, "InputRMS"): 1.0}
        numbers |= {(norm, "ParameterRMS.weight"): 1.0}
        numbers |= {(branch, "OutputRMS"): grows if i > 2 else 0.02, (branch, "WeightNorm"): 1.0}
    assert len([f for f in outliers(evidence(numbers)) if "grows" in f.text]) == count


def test_a_branch_that_makes_a_residual_stream_far_larger_is_named_behind_the_norm():
    numbers = {}
    for i in range(4):
        size = 1.0 if i < 2 else 100.0
        for j, norm in enumerate(("norm1", "norm2")):
            numbers[f"h.{i}.{norm}", "InputRMS"] = size if i != 1 or not j else 100.0
            numbers[f"h.{i}.{norm}", "OutputRMS"] = 1.0
            numbers[f"h.{i}.{norm}", "ParameterRMS.weight"] = 1.0
            numbers[f"h.{i}.fc{j}", "InputRMS"] = 1.0
            numbers[f"h.{i}.fc{j}", "OutputRMS"] = 1.0
    assert [found.module for found in outliers(evidence(numbers))] == ["h.1.norm2"]


@pytest.mark.parametrize(("first", "count"), [(0.0, 0), (1.0, 1)])
def test_steps_of_a_weight_that_was_zero_are_large_beside_it(first, count):
    steps = np.arange(40)
    numbers = {(f"h.{i}", "UpdateRatio.weight"): 1e-3 for i in range(6)}
    numbers |= {("h.3", "UpdateRatio.weight"): 1 / (steps + 1)}
    numbers |= {("h.3", "WeightNorm"): np.where(steps, 1.0, first)}
    numbers |= {(f"h.{i}", "WeightNorm"): 1.0 for i in range(6) if i != 3}
    found = [f for f in outliers(evidence(numbers)) if f.quantity == "UpdateRatio.weight"]
    assert len(found) == count


def test_of_blocks_most_of_which_leave_what_they_were_the_first_is_named():
    grows = np.where(np.arange(40) < 10, 1.0, 3.0 ** (np.arange(40) - 10))
    numbers = {(f"h.{i}", "OutputRMS"): 1.0 + i / 10 for i in range(5)}
    numbers |= {(f"h.{i}.fc", "OutputRMS"): 1.0 for i in range(5)}
    numbers |= {(f"h.{i}", "OutputRMS"): grows for i in (2, 3, 4)}
    found, *_ = outliers(evidence(numbers))
    assert (found.module, found.severity) == ("h.2", "alert")
    assert "of 2 others like it stays as it was" in found.text


@pytest.mark.parametrize(("last", "count"), [(1.0, 1), (0.001, 0)])
def test_gradients_that_shrink_as_the_loss_has_fallen_are_none(last, count):
    shrinks = np.geomspace(1.0, 0.02, 40)
    numbers = {(f"h.{i}.fc", "OutputGradRMS"): shrinks if i > 3 else 1.0 for i in range(8)}
    numbers[("", "loss")] = np.geomspace(1.0, last, 40)
    assert len([f for f in outliers(evidence(numbers)) if "shrinks" in f.text]) == count


@pytest.mark.parametrize(("last", "count"), [(0.02, 0), (0.002, 1)])
def test_beside_few_that_stay_a_little_is_none(last, count):
    shrinks = np.geomspace(1.0, last, 40)
    numbers = {(f"h.{i}.fc", "OutputGradRMS"): shrinks if i > 2 else 1.0 for i in range(6)}
    assert len([f for f in outliers(evidence(numbers)) if "shrinks" in f.text]) == count


def test_numbered_modules_are_siblings_of_their_class_where_it_is_known():
    numbers = {(f"net.{i}", "WeightNorm"): 100.0 if i == 4 else 1.0 for i in range(8)}
    known = evidence(numbers)
    assert [found.module for found in outliers(known)] == ["net.4"]
    kinds = {f"net.{i}": Attributes("PReLU" if i == 4 else "Linear", {}) for i in range(8)}
    assert [*outliers(knowing(known, attributes=kinds))] == []


def test_gradients_into_a_branch_that_began_at_nothing_are_compared_with_their_like():
    numbers = {}
    for i in range(6):
        # Of one block alone the branch is the last thing before another branch.
        inner = np.where(np.arange(40) == 0, 0.0, 1e-4) if i in (2, 3) else 1.0
        numbers[f"h.{i}.fc", "OutputGradRMS"] = inner
        numbers[f"h.{i}.out", "OutputGradRMS"] = 1.0
        numbers[f"h.{i}.out", "WeightNorm"] = 1.0
    assert [f.module for f in outliers(evidence(numbers))] != []
    zero = {(f"h.{i}.out", "WeightNorm"): np.arange(40) / 100 for i in (2, 3)}
    found = [f for f in outliers(evidence(numbers | zero)) if "Grad" in f.quantity]
    assert found == []


def test_a_gain_before_another_norm_has_next_to_no_gradient():
    numbers = {}
    for i in range(6):
        numbers[f"h.{i}.fc", "ParameterRMS.weight"] = 0.1
        numbers[f"h.{i}.fc", "WeightNorm"] = 0.1 * 64
        numbers[f"h.{i}.norm", "ParameterRMS.weight"] = 1.0
        numbers[f"h.{i}.norm", "WeightNorm"] = 8.0
        numbers[f"h.{i}.norm", "WeightGradNorm"] = numbers[f"h.{i}.fc", "WeightGradNorm"] = 1.0
    numbers["h.2.norm", "WeightGradNorm"] = 1e-5
    assert [*outliers(evidence(numbers))] == []
    numbers["h.2.fc", "WeightGradNorm"] = 1e-5
    assert [f.module for f in outliers(evidence(numbers))] == ["h.2.fc"]


@pytest.mark.parametrize(("size", "count"), [(0.02, 0), (1.0, 1)])
def test_a_small_matrix_passes_small_gradients_as_it_does_values(size, count):
    numbers = {}
    for i in range(6):
        is_odd = i == 3
        numbers |= {(f"h.{i}.act", "OutputGradRMS"): 0.02 if is_odd else 1.0}
        numbers |= {(f"h.{i}.fc", "OutputGradRMS"): 1.0, (f"h.{i}.fc", "InputRMS"): 1.0}
        numbers |= {(f"h.{i}.fc", "OutputRMS"): size if is_odd else 1.0}
    texts = [f.text for f in outliers(evidence(numbers))]
    assert sum("'h.3.act' to that of 'h.3.fc'" in text for text in texts) == count


def test_a_network_of_stages_has_other_streams_between_them():
    numbers = {}
    for i in range(4):
        sizes = {f"h.{i}.down": 3.0, **{f"h.{i}.{j}.norm": 0.1 for j in range(3)}}
        for name, size in sizes.items():
            numbers |= {(name, "InputRMS"): size, (name, "OutputRMS"): 1.0}
            numbers |= {(name, "ParameterRMS.weight"): 1.0}
    assert [*outliers(evidence(numbers))] == []


def test_a_spectral_norm_that_is_far_from_its_siblings_is_named():
    numbers = {(f"h.{i}.fc", "WeightSpectralNorm"): 2.0 + 0.1 * i for i in range(5)}
    assert [*outliers(evidence(numbers))] == []
    (found,) = outliers(evidence({**numbers, ("h.2.fc", "WeightSpectralNorm"): 90.0}))
    assert (found.module, found.quantity) == ("h.2.fc", "WeightSpectralNorm")


@pytest.mark.parametrize(("size", "is_told"), [(0.3, False), (0.01, True)])
def test_steps_beside_a_weight_that_begins_far_larger_are_of_another_share(size, is_told):
    numbers = {(f"h.{i}", "UpdateRatio.weight"): 1e-2 + i / 1e4 for i in range(6)}
    numbers |= {(f"h.{i}", "ParameterRMS.weight"): 0.007 for i in range(6)}
    numbers |= {("h.0", "UpdateRatio.weight"): 3e-4, ("h.0", "ParameterRMS.weight"): size}
    assert [one.module for one in outliers(evidence(numbers))] == ["h.0"] * is_told


@pytest.mark.parametrize(("factor", "is_told"), [(1.0, False), (1.001, True)])
def test_a_norm_behind_a_layer_is_given_no_residual_stream(factor, is_told):
    """As a batch norm is given what a convolution returns, of any size."""
    numbers = {}
    for i in range(8):
        size = 0.1 if i == 5 else 1.0
        numbers |= {(f"h.{i}.conv", "OutputRMS"): size, (f"h.{i}.norm", "InputRMS"): factor * size}
        numbers |= {(f"h.{i}.conv", "InputRMS"): 1.0, (f"h.{i}.norm", "OutputRMS"): 1.0}
        numbers[f"h.{i}.conv", "ParameterRMS.weight"] = 0.1
        numbers[f"h.{i}.conv", "WeightNorm"] = 10.0
        numbers[f"h.{i}.norm", "ParameterRMS.weight"] = 1.0
        numbers[f"h.{i}.norm", "WeightNorm"] = 8.0
    found = [one for one in outliers(evidence(numbers)) if "InputRMS" in one.text]
    assert bool([one for one in found if one.module == "h.5.norm"]) == is_told


@pytest.mark.parametrize(("taken", "is_told"), [(40, False), (16, True)])
def test_a_layer_that_is_given_more_features_is_given_others_beside_them(taken, is_told):
    """As in NeRF, where the place itself is put beside what is made of it."""
    numbers, kinds = {}, {}
    for i in range(6):
        numbers[f"pts.{i}", "OutputRMS"] = 1.0
        numbers[f"pts.{i}", "InputRMS"] = 4.5 if i == 3 else 0.7
        shape = (16, taken if i == 3 else 16)
        kinds[f"pts.{i}"] = Attributes("Linear", {}, sizes=(("", shape),))
    known = knowing(evidence(numbers), attributes=kinds)
    assert [one.module for one in outliers(known)] == ["pts.3"] * is_told


@pytest.mark.parametrize(("is_led", "count"), [(False, 0), (True, 2)])
def test_the_norms_of_a_decoder_begin_another_stream(is_led, count):
    """As BART's, whose first norm is given an embedding."""
    numbers = {("head", "ParameterRMS.weight"): 0.1, ("head", "WeightNorm"): 10.0}
    for i in range(12):
        numbers[f"h.{i}.norm", "InputRMS"] = 0.02 if i == 6 else 1.0
        numbers[f"h.{i}.norm", "OutputRMS"] = numbers[f"h.{i}.norm", "ParameterRMS.weight"] = 1.0
        numbers[f"h.{i}.norm", "WeightNorm"] = 8.0

    def before(module, known):
        i = int(module.split(".")[1])
        ways = {"embedding"} if i == 6 and not is_led else {f"h.{i - 1}.norm", "embedding"}
        return ways & {*known, "embedding"} if len(known) > 1 else ways & {*known}

    known = knowing(evidence(numbers), modules_before=before)
    assert len([f for f in outliers(known) if f.quantity == "InputRMS"]) == count
