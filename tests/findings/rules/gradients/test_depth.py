"""Gradients over depth."""

from dataclasses import replace

import numpy as np
import pytest

from taiyi_fx.findings import Flow
from taiyi_fx.findings.rules.gradients.depth import chains, jumps
from tests.findings.given import evidence


def deep(factor, n=8):
    return evidence({(f"h.{i}", "OutputGradRMS"): 1e-3 * factor**i for i in range(n)})


@pytest.mark.parametrize(
    ("factor", "kind"), [(10.0, "vanishing_gradient"), (0.1, "exploding_gradient")]
)
def test_a_steady_factor_is_a_finding(factor, kind):
    (found,) = chains(deep(factor))
    assert (found.kind, found.module, found.severity) == (kind, "h.0", "warning")
    assert "by a factor of 1.0e+07" in found.text


def test_what_one_place_makes_is_no_slope_and_told_there():
    sizes = {f"h.{i}": 1e-3 if i > 3 else 1e3 for i in range(8)}
    (found,) = chains(evidence({(name, "OutputGradRMS"): x for name, x in sizes.items()}))
    assert (found.kind, found.module) == ("exploding_gradient", "h.3")
    assert found.text.endswith("most of it, 1.0e+06, at one place: from 'h.4' to 'h.3'")
    assert "another term of the loss" in found.advice
    (steady,) = chains(deep(0.1))
    assert "at one place" not in steady.text


def test_the_factor_is_that_of_the_two_that_are_named():
    sizes = {f"h.{i}": 10.0 ** -(6 if i < 4 else 1) for i in range(8)} | {"h.0": 10**-6.5}
    (found,) = chains(evidence({(name, "OutputGradRMS"): x for name, x in sizes.items()}))
    assert "by a factor of 3.2e+05 on their way from 'h.7' back to 'h.0'" in found.text
    assert "1.0e+05, at one place: from 'h.4' to 'h.3'" in found.text


def test_ends_that_say_the_opposite_of_the_slope_are_none():
    powers = [4, -6, -5, -4, 4, 5, 6, 0]
    numbers = {(f"h.{i}", "OutputGradRMS"): 10.0**x for i, x in enumerate(powers)}
    assert [*chains(evidence(numbers))] == []


def test_small_factors_and_few_modules_are_none():
    assert [*chains(deep(2.0))] == []
    assert [*chains(deep(100.0, 4))] == []


def test_a_module_that_passes_back_far_more_than_it_was_given_is_an_alert():
    (found,) = jumps(evidence({("a", "OutputGradRMS"): 1.0, ("b", "OutputGradRMS"): 1e-3}))
    assert (found.kind, found.module, found.severity) == ("gradient_jump", "b", "alert")
    assert found.value == pytest.approx(1e3)


@pytest.mark.parametrize(("leads", "count"), [({"a", "stem"}, 1), ({"stem"}, 0)])
def test_a_head_beside_another_passes_nothing_back_to_it(leads, count):
    """As those of boxes and of classes, each with a loss of its own."""
    numbers = {("stem", "OutputRMS"): 1.0, ("a", "OutputRMS"): 1.0, ("b", "OutputRMS"): 1.0}
    numbers |= {("a", "OutputGradRMS"): 1.0, ("b", "OutputGradRMS"): 1e-3}
    flow = Flow(modules_before=lambda module, known: leads & {*known})
    assert len([*jumps(replace(evidence(numbers), flow=flow))]) == count


def test_a_gradient_that_comes_past_a_branch_is_none():
    numbers = {("a", "OutputGradRMS"): 1.0, ("branch", "OutputGradRMS"): 1e-3}
    assert [*jumps(evidence({**numbers, ("b", "OutputGradRMS"): 0.5}))] == []


def test_a_logarithm_of_small_numbers_is_none():
    numbers = {("a", "OutputGradRMS"): 1e4, ("b", "OutputGradRMS"): 1.0}
    numbers |= {("a", "OutputRMS"): 1e-4, ("b", "OutputRMS"): 1.0}
    assert [*jumps(evidence(numbers))] == []


def test_an_output_of_nothing_divides_nothing():
    numbers = {("a", "OutputGradRMS"): 1.0, ("b", "OutputGradRMS"): 1e-3}
    (found,) = jumps(evidence({**numbers, ("b", "OutputRMS"): 0.0}))
    assert found.module == "b"


@pytest.mark.parametrize(("end", "severity"), [(0.9, "warning"), (0.2, "note")])
def test_gradients_that_vanish_are_a_note_where_the_loss_comes_down(end, severity):
    numbers = {(f"h.{i}", "OutputGradRMS"): 10.0 ** (i - 8) for i in range(8)}
    numbers |= {("", "loss"): np.linspace(1.0, end, 40)}
    (found,) = chains(evidence(numbers))
    assert (found.kind, found.severity) == ("vanishing_gradient", severity)
