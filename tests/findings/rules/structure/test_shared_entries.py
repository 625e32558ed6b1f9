"""Lists whose entries are one module."""

from dataclasses import replace

import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings.rules.structure.shared_entries import shared_entries
from tests.findings.given import evidence


def test_each_list_is_a_note_with_the_number_of_its_entries():
    known = replace(evidence({("moe", "OutputRMS"): 1.0}), repeated={"moe.experts": 8})
    (found,) = shared_entries(known)
    assert (found.kind, found.module, found.severity) == ("shared_entries", "moe.experts", "note")
    assert found.text == "8 entries of 'moe.experts' are one module, with the same weights"


def test_a_model_of_one_block_several_times_is_told_after_what_is_urgent():
    model = nn.Sequential(*[nn.Linear(4, 4)] * 3, nn.ReLU(), nn.Linear(4, 2))
    watched = taiyi_fx.instrument(model)
    for step in range(4):
        watched(torch.randn(8, 4)).square().mean().backward()
        watched.monitor.track(step)
        model.zero_grad()
    found = watched.monitor.findings[-1]
    assert (found.kind, found.value) == ("shared_entries", 3.0)
    assert found.text.startswith("3 entries of the model are one module")
