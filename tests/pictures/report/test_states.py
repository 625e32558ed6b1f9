"""Whether a series needs a look."""

import numpy as np
import pytest

import taiyi_fx
from taiyi_fx.pictures.report import State, state_of
from taiyi_fx.pictures.report.states import LASTING, NON_FINITE, STEP, TROUBLE

NAN, INF = np.nan, np.inf
FIVE = [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("quantity", "values", "state"),
    [
        ("q", [], State("ok")),
        ("q", [1], State("ok")),
        ("q", [1, NAN], State("alert")),
        ("q", [1, -INF], State("alert")),
        ("q", [NAN, 1], State("warn")),
        ("q", [INF, 1], State("warn")),
        ("q", [*FIVE, 30], State("warn", "up")),
        ("q", [*FIVE, 29.9], State("ok")),
        ("WeightNorm", [*FIVE, 0.3], State("warn", "down")),
        ("WeightNorm", [*FIVE, 0.31], State("ok")),
        ("WeightNorm", [*FIVE, 30], State("warn", "up")),
        ("ParameterNorm.weight", [*FIVE, 0.3], State("warn", "down")),
        ("OutputActivationRate(threshold=0.1)", [*FIVE, 0.3], State("warn", "down")),
        ("q", [*FIVE, -30], State("ok")),
        ("q", [*FIVE, 0], State("ok")),
        ("q", [*(-x for x in FIVE), -30], State("warn", "up")),
        ("q", [0.0] * 5 + [3], State("ok")),
        ("q", [*FIVE[:4], 100], State("ok")),
        ("q", [NAN, *FIVE[:4], 100], State("warn")),
        ("q", [NAN, *FIVE, 100], State("warn", "up")),
        ("OutputDeathRate", [0.09], State("ok")),
        ("OutputDeathRate", [0.1], State("warn")),
        ("OutputDeathRate", [0.9, 0.5], State("alert")),
        ("DeadNeuronRatio(threshold=0.1)", [0.5], State("alert")),
        ("ParameterGradDeathRate.weight", [0.7], State("alert")),
        ("WeightGradUnderflowRate", [0.2], State("warn")),
        ("OutputActivationRate", [0.9], State("ok")),
        ("OutputDeathRateOfMine", [0.9], State("ok")),
        ("NonFinite", [0, 3], State("alert")),
        ("InputNonFinite.NaN", [3, 0], State("warn")),
        ("NonFinite", [0, 0], State("ok")),
    ],
)
def test_a_series_is_in_the_state_that_its_numbers_say(quantity, values, state):
    assert state_of(quantity, values) == state


@pytest.mark.parametrize(
    "quantity",
    ["loss", "lr", "Loss", "OutputGradNorm", "WeightGradNorm", "ParameterGradRMS.weight",
     "UpdateRatio.bias", "ParameterUpdateNorm.weight", "MeanTID", "VarTID", "GradientNoiseScale",
     "PerSampleGradNorm.max", "OutputGradCovMaxEig", "FisherCondition", "Kurtosis", "of_mine"],
)  # fmt: skip
def test_what_falls_as_training_goes_well_is_no_warning_and_what_grows_is(quantity):
    usual = [0.01 * x for x in FIVE]
    assert state_of(quantity, [*usual, 1e-6]) == State("ok")
    assert state_of(quantity, [*usual, 0.3]) == State("warn", "up")


@pytest.mark.parametrize("name", ["UpdateRatio", "UpdateRatio.weight"])
def test_a_step_as_long_as_the_weight_is_a_warning_by_itself(name):
    assert state_of(name, [0.9]) == State("ok")
    assert state_of(name, [1.0]) == State("warn")
    assert state_of(name, [1.0, 0.9]) == State("ok")
    assert state_of(name, [0.01] * 5 + [1.0]) == State("warn", "up")
    assert state_of("UpdateRatioOfMine", [1.0]) == State("ok")


def test_shares_of_trouble_and_counts_of_what_is_not_finite_are_quantities_that_there_are():
    names = [info.name for info in taiyi_fx.quantities()]
    found = {name for name in names if TROUBLE.fullmatch(name)}
    assert found == {
        "OutputDeathRate", "DeadNeuronRatio", "ParameterGradDeathRate",
        "OverflowRate", "UnderflowRate", "InputOverflowRate", "InputUnderflowRate",
        "OutputGradOverflowRate", "OutputGradUnderflowRate", "WeightOverflowRate",
        "WeightUnderflowRate", "WeightGradOverflowRate", "WeightGradUnderflowRate",
    }  # fmt: skip
    counts = {name for name in names if NON_FINITE.fullmatch(name)}
    assert counts == {"NonFinite", "InputNonFinite", "OutputGradNonFinite"}


def test_what_training_does_not_wear_down_and_steps_are_quantities_that_there_are():
    infos = taiyi_fx.quantities()
    lasting = {info.name: info for info in infos if LASTING.fullmatch(info.name)}
    assert len(lasting) == LASTING.pattern.count("|") + 1
    assert {site for info in lasting.values() for site in info.sites} == {
        "input", "output", "parameter",
    }  # fmt: skip
    assert [info.name for info in infos if STEP.fullmatch(info.name)] == ["UpdateRatio"]
