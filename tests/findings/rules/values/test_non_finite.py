"""The site where NaN or Inf arose, not those that it reached."""

from dataclasses import replace

import numpy as np
import pytest

from taiyi_fx.findings import NotFinite
from taiyi_fx.findings.rules.values.non_finite import first_step, non_finite
from tests.findings.given import evidence

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("numbers", "site"),
    [
        # a weight, then all that is computed with it
        (
            {
                ("a", "OutputRMS"): [1, 1, 1],
                ("b", "OutputRMS"): [1, NAN, NAN],
                ("b", "WeightNorm"): [1, NAN, NAN],
                ("c", "WeightNorm"): [1, 1, NAN],
            },
            ("b", "WeightNorm", 1),
        ),
        # a value, in the order of execution
        (
            {("a", "OutputRMS"): [1, 1, INF], ("b", "OutputRMS"): [1, 1, NAN]},
            ("a", "OutputRMS", 2),
        ),
        # gradients, in the order of backward
        (
            {
                ("a", "OutputGradRMS"): [1, NAN],
                ("b", "OutputGradRMS"): [1, NAN],
                ("c", "OutputGradRMS"): [1, 1],
            },
            ("b", "OutputGradRMS", 1),
        ),
        # the loss before the gradients that it makes
        ({("", "loss"): [1, NAN], ("a", "OutputGradRMS"): [1, NAN]}, ("", "loss", 1)),
        # a count
        ({("a", "NonFinite"): [0, 0, 7], ("b", "NonFinite"): [0, 0, 9]}, ("a", "NonFinite", 2)),
    ],
    ids=["weight", "value", "gradient", "loss", "count"],
)
def test_the_first_site_is_named(numbers, site):
    (found,) = non_finite(evidence(numbers))
    assert (found.module, found.quantity, found.step) == site
    assert found.severity == "alert"
    assert f"step {site[2]}: the first NaN or Inf is in" in found.text


def test_finite_numbers_are_no_finding():
    found = evidence({("a", "OutputRMS"): 1, ("a", "InputCovCondition"): INF})
    assert [*non_finite(found)] == []
    assert first_step(found) is None


def test_a_module_whose_input_is_finite_is_where_it_arises():
    numbers = {("a", "InputRMS"): [1, 1], ("a", "OutputRMS"): [1, NAN]}
    (found,) = non_finite(evidence(numbers))
    assert found.text.endswith("'a', whose input is finite: it arises there")


def test_what_is_given_to_the_first_module_is_in_the_data():
    numbers = {("a", "InputRMS"): [1, NAN], ("a", "OutputRMS"): [1, NAN]}
    (found,) = non_finite(evidence(numbers))
    assert (found.module, found.quantity) == ("a", "InputRMS")
    assert "it is in the data" in found.text
    assert "batch" in found.advice


def test_between_two_modules_the_functions_are_named():
    numbers = {
        ("a", "OutputRMS"): [1, 1],
        ("b", "OutputRMS"): [1, NAN],
        ("b", "InputRMS"): [1, NAN],
    }
    known = replace(evidence(numbers), before_module={"b": ["sub", "log"]}.__getitem__)
    (found,) = non_finite(known)
    assert (found.module, found.quantity) == ("b", "InputRMS")
    assert "given it by sub, log: it arises between" in found.text


@pytest.mark.parametrize(("quantity", "site"), [("OutputRMS", "h.1.fc"), ("OutputGradRMS", "")])
def test_a_module_has_what_one_within_it_made_and_hands_on_what_it_is_given(quantity, site):
    names = ("", "h.0", "h.1", "h.1.fc", "h.1.act")
    numbers = {(name, quantity): [1, NAN if name != "h.0" else 1] for name in names}
    (found,) = non_finite(evidence(numbers))
    assert found.module == site


def weights(*bad):
    return evidence(
        {(name, "WeightNorm"): [1, NAN if name in bad else 1] for name in "abcd"}
        | {(name, "OutputRMS"): [1, 1] for name in "abcd"}
    )


def test_weights_that_a_gradient_made_so_are_told_by_the_last_of_them():
    (found,) = non_finite(weights("a", "b"))
    assert found.module == "b"
    assert "of 1 more before it, and of none behind it" in found.text


def test_weights_that_are_all_so_at_once_accuse_none_of_them():
    (found,) = non_finite(weights(*"abcd"))
    assert found.module == ""
    assert "all 4 modules at once" in found.text
    assert "Recorder" in found.advice


def test_others_of_several_weights_are_told_by_the_first():
    (found,) = non_finite(weights("b", "d"))
    assert found.module == "b"


def unread(**seen):
    """A loss that is NaN at a step at which no module was read, and what the tensors tell then."""
    names = {
        (name, quantity): [1, 1] for name in "abcd" for quantity in ("OutputRMS", "WeightNorm")
    }
    known, loss = evidence(names, [0, 2]), evidence({("", "loss"): [1, NAN, NAN]})
    told = {1: NotFinite(**seen)} if seen else {}
    return replace(known, series=(*known.series, *loss.series), not_finite=told)


@pytest.mark.parametrize(
    ("seen", "module", "words"),
    [
        ({"parameters": ("c",)}, "c", "in the parameters of 'c'"),
        ({"parameters": ("b", "d")}, "b", "in the parameters of 'b'"),
        ({"parameters": ("a", "b")}, "b", "in the parameters of 'b'"),
        ({"buffers": ("c", "d"), "finite_buffers": ("a", "b")}, "c", "in what 'c' is given"),
    ],
    ids=["one", "several", "by their gradient", "running statistics"],
)
def test_what_was_not_finite_at_that_moment_is_named(seen, module, words):
    (found,) = non_finite(unread(**seen))
    assert (found.module, found.step) == (module, 1)
    assert words in found.text


@pytest.mark.parametrize(
    "seen",
    [
        {},
        {"parameters": tuple("abcd")},
        {"finite_buffers": ("a", "b")},
        {"buffers": ("a", "b")},
        {"buffers": ("a", "b"), "finite_buffers": ("d",)},
    ],
    ids=["unknown", "all", "none", "all statistics", "those before"],
)
def test_a_loss_at_a_step_at_which_nothing_was_read_does_not_accuse_the_loss(seen):
    (found,) = non_finite(unread(**seen))
    assert (found.module, found.step) == ("", 1)
    assert "no module was read at this step" in found.text
    assert "Recorder" in found.advice


def test_a_norm_of_all_gradients_is_not_the_one_to_name():
    numbers = {("", "GradNorm"): [1, NAN], ("a", "OutputGradRMS"): [1, NAN]}
    (found,) = non_finite(evidence(numbers | {("b", "OutputGradRMS"): [1, 1]}))
    assert found.module == "a"
