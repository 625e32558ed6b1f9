"""The sites of a recorder: every module that can be called, beside what a plan has already."""

from torch import nn

from taiyi_fx.passes.ir import Reading, Site, Target
from taiyi_fx.recorder.sites import RECORDED, recorded_modules, with_sites
from taiyi_fx.reductions import Norm


def model():
    return nn.ModuleDict({"a": nn.ModuleList([nn.Linear(2, 2)]), "b": nn.Sequential(nn.ReLU())})


def test_lists_and_dictionaries_of_modules_are_no_sites():
    assert recorded_modules(model()) == ["a.0", "b", "b.0"]


def test_readings_and_functions_of_the_plan_stay():
    asked = Reading(Site("input"), Norm())
    plan = {
        "b": Target("b", frozenset({asked})),
        "b.relu()": Target("b.relu()", frozenset({asked})),
        "a.0.linear()": Target("a.0.linear()", frozenset()),
    }
    made = with_sites(plan, model())
    assert made["b"].readings == {asked, *RECORDED}
    assert made["b.relu()"].readings == {asked, *RECORDED}
    assert made["a.0"].readings == {*RECORDED}
    assert made["a.0.linear()"].readings == frozenset()
    assert plan["b"].readings == {asked}
