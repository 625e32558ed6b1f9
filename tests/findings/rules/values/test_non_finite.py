"""The site where NaN or Inf arose, not those that it reached."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings import MadeBy, NotFinite
from taiyi_fx.findings.rules.values.non_finite import first_step, non_finite
from tests.findings.given import evidence, knowing

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
    known = knowing(evidence(numbers), before_module={"b": ["sub", "log"]}.__getitem__)
    (found,) = non_finite(known)
    assert (found.module, found.quantity) == ("b", "InputRMS")
    assert "given it by sub, log: it arises between" in found.text


GIVEN = {("time", "OutputRMS"): [1, NAN], ("fc", "InputRMS"): [NAN, NAN]}


@pytest.mark.parametrize(
    ("functions", "modules", "words"),
    [
        ([], [], "is in the model's input 'x' already; 'fc' is given it as it is"),
        (["sub", "log"], [], "is given the model's input 'x' by sub, log: it is in the data, or"),
        (["add"], ["time"], "is given it by add: it arises between the modules before it"),
    ],
    ids=["as it is", "by functions", "and another module"],
)
def test_the_model_s_own_input_is_named_where_nothing_else_makes_it(functions, modules, words):
    known = knowing(
        evidence(GIVEN),
        inputs_before={"fc": ["x"]}.__getitem__,
        before_module={"fc": functions}.__getitem__,
        modules_before=lambda module, known: modules,
    )
    (found,) = non_finite(known)
    assert (found.module, found.step) == ("fc", 0)
    assert words in found.text


def test_weights_that_its_gradient_makes_so_are_no_second_place_of_it():
    numbers = GIVEN | {(name, "WeightNorm"): [1, NAN] for name in ("time", "fc")}
    (found,) = non_finite(evidence(numbers))
    assert "the weights of 2 modules are so from step 1 on, as the optimizer's step" in found.text
    (found,) = non_finite(evidence(GIVEN | {("fc", "WeightNorm"): [1, NAN]}))
    assert "; the weights of 'fc' are so from step 1 on" in found.text
    numbers = {("a", "WeightNorm"): [1, NAN, NAN], ("b", "WeightNorm"): [1, 1, NAN]}
    assert "so from step" not in next(non_finite(evidence(numbers))).text


@pytest.mark.parametrize(("batches", "rows"), [(1, 2), (4, 8)])
def test_rows_of_the_model_s_input_with_a_nan_are_counted_over_a_step(batches, rows):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.time, self.enter = nn.Linear(1, 6), nn.Linear(4, 6)

        def forward(self, x):
            time = self.time(torch.ones(len(x), 1))
            return self.enter(x) + time

    model = taiyi_fx.instrument(Net(), {"Linear": ["InputRMS", "NonFinite"]})
    x = torch.randn(8, 4)
    x[2, 1] = x[5] = NAN
    for _ in range(batches):
        model(x).sum().backward()
    with pytest.warns(taiyi_fx.MonitorWarning, match="NaN"):
        model.monitor.track(0)
    (found,) = model.monitor.findings
    assert f"model's input 'x' already, in {rows} of its rows; 'enter' is given it" in found.text
    model.monitor.close()


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


@pytest.mark.parametrize(
    ("quantity", "rows"),
    [
        ("OutputSQNR", torch.zeros(4, 3)),
        ("OutlierFeatures", torch.zeros(4, 3)),
        ("InputSQNR", torch.ones(4, 3)),
        ("GradientNoiseScale", torch.ones(1, 3)),
        ("WeightSQNR", torch.ones(4, 3)),
    ],
)
def test_a_number_that_its_definition_leaves_without_a_value_is_no_finding(
    quantity, rows, tmp_path
):
    layer = nn.Linear(rows.shape[1], 2)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    run = tmp_path / "run"
    model = taiyi_fx.instrument(nn.Sequential(layer), {"0": [quantity]}, run=run)
    model(rows).sum().backward()
    model.monitor.track(0)
    numbers = [r.value for r in model.monitor.records if isinstance(r.value, float)]
    assert not all(map(np.isfinite, numbers))
    assert "non_finite" not in [found.kind for found in model.monitor.findings]
    model.monitor.close()
    assert "non_finite" not in [found.kind for found in taiyi_fx.open_run(run).findings]


@pytest.mark.parametrize(
    "quantity",
    ["InputStd", "InputCovMaxEig", "InputUnderflowRate", "InputOverflowRate", "UnderflowRate"],
)
def test_data_that_are_nan_are_told_by_any_one_number_of_them(quantity):
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 2)), {"0": [quantity]})
    for step in range(4):
        model(torch.full((4, 3), NAN if step > 1 else 1.0))
        model.monitor.track(step)
    found = [one.step for one in model.monitor.findings if one.kind == "non_finite"]
    assert found == [2]


def test_a_quantity_of_ones_own_says_that_it_may_be_undefined():
    @taiyi_fx.quantity(undefined=True, n=taiyi_fx.input.count)
    def logarithm_of_rows(n):
        return (n - n).double().log()

    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2)), {"0": [logarithm_of_rows]})
    model(torch.ones(1, 2))
    model.monitor.track(0)
    assert [r.value for r in model.monitor.records] == [-INF]
    assert [found.kind for found in model.monitor.findings if found.severity == "alert"] == []


def test_what_weights_that_have_grown_make_is_an_overflow_and_no_division_by_zero():
    numbers = {("a", "InputRMS"): [1, 1, 1], ("a", "OutputRMS"): [1, 1e20, INF]}
    numbers |= {("a", "WeightNorm"): [1, 1e20, 1e30]}
    (found,) = non_finite(evidence(numbers))
    assert "'a', which overflows: half of all weights are 1e+30 times as large" in found.text
    assert "division" not in found.advice
    assert "learning rate" in found.advice


def test_the_operation_that_a_step_showed_that_was_run_again_is_named():
    known = evidence({("a", "OutputRMS"): [1, 1, NAN], ("b", "OutputRMS"): [1, 1, NAN]})
    made = MadeBy("log", "a.inner", "forward", "net.py:7")
    (found,) = non_finite(replace(known, run_again={2: made}))
    assert (found.module, found.quantity, found.step) == ("a.inner", "OutputRMS", 2)
    assert "made by log of 'a.inner' in forward (net.py:7)" in found.text
    (found,) = non_finite(replace(known, run_again={1: made}))
    assert found.module == "a"
