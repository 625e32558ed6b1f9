"""Factors from module to module."""

import numpy as np

from taiyi_fx.findings.facts.chain import made, not_cut_off, passed_back
from tests.findings.given import evidence


def series(numbers):
    return [*evidence(numbers).series]


def test_an_output_is_taken_over_that_of_the_module_before_it():
    one, two = ("h.0.fc", "OutputRMS"), ("h.0.act", "OutputRMS")
    ((found, role),) = made(series({one: [2.0, 4.0], two: [1.0, 1.0]}))
    assert (found.module, role) == ("h.0.act", "h.*.act h.*.fc")
    np.testing.assert_allclose(found.values, [0.5, 0.25])


def test_out_of_a_part_into_the_next_a_factor_has_a_role_of_its_own():
    names = ["h.0.0", "h.0.2", "h.1.0", "h.1.2"]
    found = made(series({(name, "OutputRMS"): [1.0] for name in names}))
    assert [role for _, role in found] == ["h.*.* h.*.*", "h.*.* h.*.* between", "h.*.* h.*.*"]


def test_a_gradient_is_of_the_module_that_passes_it_back():
    one, two = ("h.0.fc", "OutputGradRMS"), ("h.0.act", "OutputGradRMS")
    ((found, role),) = passed_back(series({one: [8.0], two: [2.0]})[::-1])
    assert (found.module, role) == ("h.0.act", "h.*.fc h.*.act")
    np.testing.assert_allclose(found.values, [4.0])
    assert found.title == "the ratio of OutputGradRMS of 'h.0.fc' to that of 'h.0.act'"


def test_steps_of_one_alone_and_zeros_have_no_factor():
    numbers = {("a", "OutputRMS"): [1.0, 0.0, 3.0, 4.0], ("b", "OutputRMS"): [2.0, 1.0, 0.0]}
    ((found, _),) = made(series(numbers))
    assert found.steps.tolist() == [0]
    np.testing.assert_allclose(found.values, [2.0])


def test_a_gradient_that_one_module_alone_makes_large_is_left_out():
    """As that of units which an activation cuts off."""
    factors = [(1.0, "act"), (1.0, "fc"), (30.0, "act"), (1 / 30, "fc"), (1.0, "act"), (1.0, "fc")]
    every = [
        (series({(f"h.{i}.{role}", "OutputGradRMS"): [size] * 4})[0], role)
        for i, (size, role) in enumerate(factors)
    ]
    assert [one.module for one, _ in not_cut_off(every)] == [
        "h.0.act",
        "h.1.fc",
        "h.4.act",
        "h.5.fc",
    ]
    assert len([*not_cut_off(every[:3] + every[4:])]) == 5  # one that lasts
