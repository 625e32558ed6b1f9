"""Marks: on which side a quantity stands, with its schedule, and the texts of edits."""

import torch
from torch import nn

import taiyi_fx
from taiyi_fx.outline import Mark, Marks
from taiyi_fx.outline.marks import MarksOfModules
from taiyi_fx.passes.ir import Change, Site, Target


def half(x):
    return x / 2


def marks(cfg, plan=()):
    monitor = taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2)), cfg).monitor
    return MarksOfModules(monitor.subscriptions, dict(plan))


def test_each_quantity_stands_on_the_side_that_it_reads():
    entries = ["InputRMS", ["InputMean", "linear(5, 0)"], "OutputGradNorm", "WeightNorm"]
    found = marks({"0": entries})
    assert found.modules == ["0"]
    first = Marks(
        forward=(Mark("InputRMS", ""), Mark("InputMean", "linear(5, 0)")),
        backward=(Mark("OutputGradNorm", ""),),
        parameters=(Mark("WeightNorm", ""),),
    )
    assert found.at("0", 0) == first
    assert found.at("0", 1) == Marks(first.forward, first.backward)
    assert not found.at("another", 0)


def test_edits_name_side_value_pick_and_function():
    sites = [Site("input"), Site("output_grad", 1), Site("input", (0, "mask"))]
    changes = [Change(sites[0], half), Change(sites[1], torch.neg), Change(sites[2], lambda x: x)]
    found = marks({}, {"0": Target("0", frozenset(), tuple(changes))})
    assert found.at("0", 0).edits == (
        "input value · half",
        "output gradient [1] · neg",
        "input value [mask] · lambda",
    )
