"""All rules together: the cause first."""

import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from taiyi_fx.findings import find
from taiyi_fx.findings.facts.squashed import Squashed
from tests.findings.given import FACTS, evidence, knowing


def test_alerts_come_before_warnings_and_one_of_a_kind_holds_the_others():
    numbers = {(f"h.{i}", "WeightNorm"): 1.0 for i in range(8)}
    numbers |= {("h.2", "WeightNorm"): 90.0, ("h.4", "WeightNorm"): 80.0}
    numbers["act", "DeadNeuronRatio"] = 1.0
    first, second, *_ = find(evidence(numbers))
    assert (first.kind, first.severity) == ("share_of_trouble", "alert")
    assert (second.module, [found.module for found in second.consequences]) == ("h.2", ["h.4"])


def test_what_comes_after_the_first_nan_is_not_looked_at():
    values = np.where(np.arange(40) < 3, 1.0, np.nan)
    numbers = {("a", "OutputRMS"): values, ("act", "DeadNeuronRatio"): values}
    assert [found.kind for found in find(evidence(numbers))] == ["non_finite"]


def test_what_grew_to_a_nan_is_its_cause():
    numbers = {(f"h.{i}", "WeightNorm"): 1.0 for i in range(5)}
    numbers["h.3", "WeightNorm"] = 2.0 ** np.arange(40)
    numbers["h.3", "OutputRMS"] = np.where(np.arange(40) < 39, 1.0, np.inf)
    found, end, *_ = find(evidence(numbers))
    assert (found.kind, found.module, found.severity) == ("drift", "h.3", "alert")
    assert (end.kind, end.module) == ("non_finite", "h.3")


NUMBERS = st.floats() | st.sampled_from([0.0, 1.0, 5e-324, 1e308])


@given(
    st.dictionaries(
        st.tuples(
            st.sampled_from(["h.0", "h.1", "h.2", "h.3", "h.4", ""]), st.sampled_from([*FACTS])
        ),
        st.lists(NUMBERS, max_size=60),
        max_size=40,
    )
)
def test_any_numbers_are_looked_at_without_an_error_or_a_warning_of_numpy(numbers):
    for found in find(evidence(numbers)):
        assert str(found)
        assert found.module in {module for module, _ in numbers} | {"", "h"}


def test_a_scaler_that_looks_for_its_scale_hides_no_fault():
    numbers = {(f"h.{i}", "WeightNorm"): 1.0 for i in range(6)}
    numbers["h.2", "WeightNorm"] = 90.0
    numbers["h.0", "OutputGradRMS"] = [np.inf] * 3 + [1.0] * 37
    first, second = find(evidence(numbers))
    assert (first.kind, first.module) == ("outlier", "h.2")
    assert (second.kind, second.severity) == ("overflow", "note")


def train(fault=None, steps=40):
    torch.manual_seed(0)
    layers = [layer for _ in range(5) for layer in (nn.Linear(8, 8), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(8, 3))
    if fault is not None:
        fault(model)
    cfg = {"Linear": ["WeightNorm", "WeightGradNorm", "OutputRMS", "OutputGradRMS", "UpdateRatio"]}
    model = taiyi_fx.instrument(model, cfg)
    optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=1e-2)
    for step in range(steps):
        x = torch.randn(32, 8)
        loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        model.monitor.log("loss", loss)
        with warnings.catch_warnings():  # of the gradient that a frozen weight lacks
            warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
            model.monitor.track(step)
        optimizer.step()
    return model.monitor.findings


def test_a_healthy_training_has_none():
    assert train() == []


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (lambda model: model[4].weight.data.mul_(150), "outlier"),
        (lambda model: model[4].weight.data[0].fill_(torch.nan), "non_finite"),
        (lambda model: model[4].requires_grad_(False), "missing_gradient"),
    ],
    ids=["scale", "nan", "frozen"],
)
def test_the_culprit_of_a_training_comes_first(fault, kind):
    found = train(fault)[0]
    assert (found.module, found.kind) == ("4", kind)
    assert found.advice in str(found)


def broken(evidence):
    raise ValueError("of this rule alone")


def test_a_rule_that_fails_is_named_and_voids_no_other(monkeypatch):
    module = sys.modules[find.__module__]
    monkeypatch.setattr(module, "RULES", (broken, *module.RULES))
    first, second = find(evidence({("act", "DeadNeuronRatio"): 1.0}))
    assert (first.kind, second.kind, second.severity) == ("share_of_trouble", "rule_failed", "note")
    assert second.text == "the rule 'broken' failed: ValueError: of this rule alone"
    with pytest.raises(ValueError, match="of this rule alone"):
        find(evidence({("act", "DeadNeuronRatio"): 1.0}), strict=True)


@pytest.mark.parametrize(
    "name",
    "skipped_steps _of_scaler without_steps_of_idle first_step with_hooks_named causes_first "
    "follow_ups_beneath".split(),
)
def test_a_part_beside_the_rules_that_fails_voids_no_finding(monkeypatch, name):
    def fail(*args):
        raise RuntimeError("no more")

    fail.__name__ = name
    monkeypatch.setattr(sys.modules[find.__module__], name, fail)
    known = evidence({("a", "DeadNeuronRatio"): 1.0})
    found = {one.kind: one for one in find(known)}
    assert {*found} == {"share_of_trouble", "rule_failed"}
    assert f"{name!r} failed: RuntimeError: no more" in found["rule_failed"].text
    with pytest.raises(RuntimeError, match="no more"):
        find(known, strict=True)


def test_a_monitor_warns_of_a_rule_that_fails_once(monkeypatch):
    monkeypatch.setattr(sys.modules[find.__module__], "RULES", (broken,))
    with pytest.warns(taiyi_fx.MonitorWarning, match="'broken' failed") as warned:
        findings = train_quietly()
    assert [found.kind for found in findings] == ["rule_failed"]
    assert len([one for one in warned if "broken" in str(one.message)]) == 1


def train_quietly():
    model = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["OutputRMS"]})
    for step in range(20):
        model(torch.randn(4, 2)).sum().backward()
        model.monitor.track(step)
    return model.monitor.findings


@pytest.mark.parametrize(("how", "kind"), [("raw", "unsquashed_loss"), ("axis", "class_axis")])
def test_what_is_wrong_with_the_loss_comes_before_what_it_grows_to(how, kind):
    numbers = {(name, "WeightNorm"): 1.0 for name in "abcd"}
    ratio = np.where(np.arange(40) < 9, 1e-3, 2.0)
    numbers |= {(name, "UpdateRatio.weight"): ratio for name in "abcd"}
    numbers |= {("a", "OutputRMS"): np.where(np.arange(40) < 20, 1.0, np.inf), ("", "loss"): -1.0}
    known = knowing(evidence(numbers), squashed={"loss": Squashed(how)})
    assert [found.kind for found in find(known)][:2] == [kind, "non_finite"]
