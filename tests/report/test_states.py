"""Whether a series needs a look."""

import numpy as np
import pytest

import taiyi_fx
from taiyi_fx.report import State, state_of
from taiyi_fx.report.states import NON_FINITE, TROUBLE

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
        ("q", [*FIVE, 0.3], State("warn", "down")),
        ("q", [*FIVE, 0.31], State("ok")),
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
