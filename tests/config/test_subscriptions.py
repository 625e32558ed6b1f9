"""A checked configuration: what a trace marks, what calls read, and what is missing."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.config.check import check
from taiyi_fx.passes.ir import CALL_PORTS


def only(*entries, key="0"):
    model = nn.Sequential(nn.Linear(2, 2))
    (found,) = check(model, {key: list(entries)}).subscriptions
    return found


def test_a_plan_has_what_calls_read_and_nothing_of_parameters():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    double = taiyi_fx.edit(value=lambda y: 2 * y)
    config = check(model, {"0": ["InputMean", "WeightNorm", double], "1": ["WeightNorm"]})
    plan = config.plan()
    assert set(plan) == {"0", "1"}
    assert {reading.site.port for reading in plan["0"].readings} == {"input"}
    assert [change.site.port for change in plan["0"].changes] == ["output"]
    assert not plan["1"].is_at_calls
    assert {s.module for s in config.subscriptions if not s.is_at_calls} == {"0", "1"}
    assert list(config.targets().modules) == ["0"]


def test_an_edit_of_a_functions_calls_has_evaluation_traced_too():
    model = nn.Sequential(nn.Linear(2, 2))
    edited = check(model, {torch.relu: [taiyi_fx.edit(value=lambda y: y)]}).targets()
    assert edited.evaluation
    assert edited.functions == [torch.relu]
    assert not check(model, {torch.relu: ["OutputRMS"]}).targets().evaluation


@pytest.mark.parametrize(
    ("quantity", "port"),
    [("NonFinite", "output"), ("InputNonFinite", "input"), ("OutputRMS", None)],
)
def test_a_count_of_what_is_not_finite_names_its_reading(quantity, port):
    reading = only(quantity).non_finite_reading
    assert (reading and reading.site.port) == port
    assert port is None or port in CALL_PORTS


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        ("InputMean", "the module was not called"),
        ("OutputGradNorm", "no gradient reached it"),
        ("PerSampleGradNorm", "no gradient reached it"),
    ],
)
def test_an_absent_value_has_the_reason_of_its_ports(quantity, text):
    assert only(quantity).absence == text


def test_capabilities_are_those_of_the_readings():
    assert only("InputCovCondition").is_costly
    assert not only("InputMean").is_costly
    assert only("PerSampleGradNorm").is_of_weight_gradients
    assert not only("WeightGradNorm").is_of_weight_gradients


def test_the_model_has_a_series_of_what_it_is_itself_asked_of_and_of_all_its_layers():
    assert only("InputMean", key="").is_of_model
    assert only("GradientNoiseScale").is_of_model
    assert not only("InputMean").is_of_model
