"""The diagnosis applies the rules to what was recorded, with what else is known of the model."""

import warnings

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.step.whole_model import WholeModel
from taiyi_fx.warning import MonitorWarning
from taiyi_fx.watch.diagnosis import Diagnosis
from taiyi_fx.writers.protocol import SeriesInfo
from tests.findings.given import FACTS, facts_of
from tests.watch.given import training


def described(series):
    direction, health, unit = facts_of(series[1])
    return SeriesInfo(series[0], 0, series[1], direction, unit, health)


def diagnosis(missing=None):
    return Diagnosis(
        described, missing or {}, lambda: None, {"": nn.Identity()}, WholeModel(nn.Identity())
    )


def test_the_facts_are_those_that_rules_look_at():
    assert diagnosis().facts(("fc", "OutputRMS")) == FACTS["OutputRMS"]


def test_a_fault_in_the_records_is_found_and_healthy_ones_have_none():
    assert diagnosis().of_records(training([1.0] * 20)) == []
    grown = training([1.0] * 20, [(4, 0, 5e4)])
    first, *_ = diagnosis().of_records(grown)
    assert first.module == "layer.4"


def test_a_weight_that_is_not_finite_between_two_readings_is_named_when_it_is_seen():
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4)))
    watched = taiyi_fx.instrument(model, strict=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(40):
        if step == 33:  # at which nothing is read
            model[2].weight.data[3, 5] = float("nan")
        loss = watched(torch.randn(4, 8)).square().mean()
        loss.backward()
        watched.monitor.log("loss", loss)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MonitorWarning)
            watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    (found,) = [one for one in watched.monitor.findings if one.kind == "non_finite"]
    assert (found.module, found.step) == ("2", 33)


def test_code_that_cannot_be_found_is_told_once_and_ends_nothing(monkeypatch):
    def refuse():
        raise ValueError("no frames")

    monkeypatch.setattr("taiyi_fx.watch.diagnosis.code_of_loop", refuse)
    watched = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 2)))
    watched(torch.randn(4, 3)).sum().backward()
    with pytest.warns(taiyi_fx.MonitorWarning, match="the code that trains was not found: ValueE"):
        watched.monitor.track(0)
    assert watched.monitor.findings is not None
    strict = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 2)), strict=True)
    strict(torch.randn(4, 3)).sum().backward()
    with pytest.raises(ValueError, match="no frames"):
        strict.monitor.track(0)


@pytest.mark.parametrize(("name", "what"), [("slips_of", "model"), ("slips_of_loop", "loop")])
def test_a_source_that_cannot_be_read_is_told_once_and_ends_nothing(monkeypatch, name, what):
    def fails(*given):
        raise RuntimeError("no source today")

    monkeypatch.setattr(f"taiyi_fx.watch.diagnosis.{name}", fails)
    model = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["WeightNorm"]})
    for step in range(3):
        model(torch.ones(1, 2)).sum().backward()
        model.monitor.track(step)
    with pytest.warns(taiyi_fx.MonitorWarning, match=f"the source of the {what} was not read"):
        assert [one.kind for one in model.monitor.findings if one.severity == "alert"] == []
    strict = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["WeightNorm"]}, strict=True)
    strict(torch.ones(1, 2)).sum().backward()
    strict.monitor.track(0)
    with pytest.raises(RuntimeError, match="no source today"):
        _ = strict.monitor.findings


@pytest.mark.parametrize(
    ("is_late", "remark"), [(True, "log 'my loss' before backward"), (False, "")]
)
def test_a_loss_that_is_logged_after_its_backward_is_remarked(is_late, remark):
    model = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["WeightNorm"]})
    for _ in range(3):
        loss = model(torch.ones(4, 2)).square().mean()
        if is_late:
            loss.backward()
        model.monitor.log("my loss", loss)
        model.monitor.log("loss in numbers", 1.0)
        if not is_late:
            loss.backward()
        model.monitor.track()
    assert model.monitor.findings.remark.startswith(remark)
    assert bool(model.monitor.findings.remark) == is_late
