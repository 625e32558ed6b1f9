"""Modules that compute nothing, or numbers of a wild size."""

import numpy as np
import pytest

from taiyi_fx.findings.rules.values.outputs import wild_between, wild_outputs, zero_outputs
from tests.findings.given import evidence, knowing


def test_an_output_that_is_zero_is_an_alert_from_the_step_on():
    values = np.where(np.arange(40) < 9, 1.0, 0.0)
    (found,) = zero_outputs(evidence({("a", "OutputRMS"): 1.0, ("b", "OutputRMS"): values}))
    assert (found.module, found.step, found.severity) == ("b", 9, "alert")


def test_a_branch_that_begins_at_zero_and_one_that_comes_back_are_none():
    numbers = {("a", "OutputRMS"): 0.0, ("a", "WeightNorm"): 0.0, ("a", "WeightGradNorm"): 1.0}
    numbers["b", "OutputRMS"] = np.where(np.arange(40) < 30, 0.0, 1.0)
    assert [*zero_outputs(evidence(numbers))] == []


def test_a_weight_of_zero_without_a_gradient_begins_nothing():
    numbers = {("a", "OutputRMS"): 0.0, ("a", "WeightNorm"): 0.0}
    assert [found.module for found in zero_outputs(evidence(numbers))] == ["a"]


@pytest.mark.parametrize(("later", "count"), [(1.0, 0), (0.0, 2)])
def test_a_layer_of_a_state_that_begins_at_zero_returns_something_in_later_calls(later, count):
    numbers = {("cell", "OutputRMS"): 0.0, ("cell@1", "OutputRMS"): later}
    assert len([*zero_outputs(evidence(numbers))]) == count


def test_the_first_output_of_a_wild_size_comes_first():
    numbers = {("a", "OutputRMS"): 1.0, ("b", "OutputRMS"): 900.0, ("c", "OutputRMS"): 5000.0}
    assert [found.module for found in wild_outputs(evidence(numbers))] == ["b", "c"]


def test_what_functions_make_far_larger_is_named_where_it_is_given():
    numbers = {("a", "OutputRMS"): 1.0, ("b", "InputRMS"): 500.0, ("b", "OutputRMS"): 1.0}
    (found,) = wild_between(evidence(numbers))
    assert (found.kind, found.module, found.step) == ("wild_output", "b", 0)
    assert [*wild_between(evidence({**numbers, ("a", "OutputRMS"): 100.0}))] == []


def test_of_wild_outputs_the_earliest_comes_first():
    numbers = {("a", "OutputRMS"): np.where(np.arange(40) < 3, 1.0, 500.0)}
    numbers["b", "OutputRMS"] = 500.0
    assert [found.module for found in wild_outputs(evidence(numbers))] == ["b", "a"]


def test_of_outputs_that_are_wild_at_about_the_same_step_the_first_in_order_is_first():
    late, early = np.where(np.arange(40) < 20, 1, 1e3), np.where(np.arange(40) < 19, 1, 1e3)
    numbers = {("h.0", "OutputRMS"): 1.0, ("h.1", "OutputRMS"): late, ("h.2", "OutputRMS"): early}
    assert next(wild_outputs(evidence(numbers))).module == "h.1"


def test_one_that_grew_is_said_to_grow_with_what_makes_outputs_grow():
    numbers = {("mu", "OutputRMS"): 0.1 * 1.5 ** np.arange(40)}
    (found,) = wild_outputs(evidence(numbers))
    assert (found.module, found.step) == ("mu", 18)
    assert "grows from 0.1 to 7.37e+05" in found.text
    assert "wrong sign" in found.advice


def test_an_output_that_is_zero_from_late_on_is_an_alert_too():
    values = np.where(np.arange(40) < 30, 1.0, 0.0)
    (found,) = zero_outputs(evidence({("a", "OutputRMS"): values}))
    assert (found.severity, found.step) == ("alert", 30)


def test_a_module_that_is_given_nothing_though_something_is_returned_before_it_is_named():
    numbers = {("a", "OutputRMS"): 1.0, ("b", "InputRMS"): 0.0, ("b", "OutputRMS"): 0.5}
    (found,) = zero_outputs(evidence(numbers))
    assert (found.kind, found.module) == ("zero_output", "b")
    assert "though 'a' before it returns 1" in found.text
    assert [*zero_outputs(evidence({("b", "InputRMS"): 0.0, ("b", "OutputRMS"): 0.5}))] == []


def test_what_is_given_zero_from_some_step_on_is_named_with_the_functions_before_it():
    dies = np.where(np.arange(40) < 9, 1.0, 0.0)
    numbers = {("a", "OutputRMS"): 1.0, ("b", "InputRMS"): dies, ("b", "OutputRMS"): 0.5}
    known = knowing(evidence(numbers), before_module={"b": ["relu"]}.__getitem__)
    (found,) = zero_outputs(known)
    assert (found.module, found.step) == ("b", 9)
    assert found.text.endswith("the operation `relu` between them makes it")
    assert "between the two" in found.advice


@pytest.mark.parametrize(("later", "count"), [(1.0, 0), (0.0, 1)])
def test_a_state_that_begins_at_zero_is_given_something_in_later_calls(later, count):
    numbers = {("enter", "OutputRMS"): 1.0, ("enter", "InputRMS"): 1.0}
    numbers |= {("cell", "InputRMS"): 0.0, ("cell", "OutputRMS"): 0.5}
    numbers |= {("cell@1", "InputRMS"): later, ("cell@1", "OutputRMS"): 0.5}
    assert len([*zero_outputs(evidence(numbers))]) == count


@pytest.mark.parametrize(
    ("given", "before", "count"),
    [(4e-8, {"n"}, 1), (1e-3, {"n"}, 0), (4e-8, {"n", "m"}, 0)],
    ids=["nothing", "little", "of several"],
)
def test_what_becomes_next_to_nothing_between_two_modules_is_told(given, before, count):
    values = np.append([given], np.linspace(0.002, 0.04, 39))
    numbers = {("n", "OutputRMS"): 1.0, ("fc", "InputRMS"): values, ("fc", "OutputRMS"): 0.1}
    known = evidence(numbers)
    known = knowing(
        known,
        modules_before=lambda module, among: before if module == "fc" else set(),
        before_module=lambda module: ["mean"],
    )
    found = [*zero_outputs(known)]
    assert [one.module for one in found] == ["fc"] * count
    assert all("next to nothing" in one.text and "`mean`" in one.text for one in found)
