"""Forward hooks behind a module's output."""

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings import Attributes, find
from taiyi_fx.findings.rules.structure.hooked import changed_by_hooks
from tests.findings.given import evidence, knowing


def chain(factor, hooked="h.1", **others):
    numbers = {}
    for i in range(4):
        numbers[f"h.{i}", "InputRMS"] = factor if i == 2 else 1.0
        numbers[f"h.{i}", "OutputRMS"] = 1.0
    return knowing(evidence(numbers), hooks={hooked: ["scale"]}, **others)


@pytest.mark.parametrize("factor", [50.0, 0.02, np.geomspace(1, 100, 40)])
def test_a_hook_that_changes_the_size_of_values_is_named(factor):
    (found,) = changed_by_hooks(chain(factor))
    assert (found.kind, found.module, found.severity) == ("changed_by_hook", "h.1", "warning")
    assert "the forward hook of 'h.1' (scale)" in found.text


@pytest.mark.parametrize(
    "known",
    [
        chain(1.0),
        chain(3.0),
        chain(50.0, hooked="h.2"),
        chain(50.0, before_module=lambda module: ["mul"]),
        chain(50.0, modules_before=lambda module, known: {"norm"}),
    ],
    ids=["reads", "a little", "another", "a function between", "a module between"],
)
def test_one_that_reads_and_what_functions_change_are_none(known):
    assert [*changed_by_hooks(known)] == []


def test_an_embedding_that_comes_next_is_given_indices():
    words = Attributes("torch.nn.modules.sparse.Embedding", {})
    assert [*changed_by_hooks(chain(50.0, attributes={"h.2": words}))] == []


def test_a_container_s_hook_stands_behind_all_that_it_holds():
    numbers = {(f"h.{i}.fc", q): 1.0 for i in range(3) for q in ("InputRMS", "OutputRMS")}
    numbers["h.2.fc", "InputRMS"] = 30.0
    (found,) = changed_by_hooks(knowing(evidence(numbers), hooks={"h.1": ["scale"]}))
    assert found.module == "h.1"


def test_what_comes_out_wrong_behind_a_hook_names_it():
    numbers = {(f"h.{i}", "OutputRMS"): 1.0 for i in range(4)}
    numbers["h.2", "OutputRMS"] = np.where(np.arange(40) < 9, 1.0, np.nan)
    (found,) = find(knowing(evidence(numbers), hooks={"h.1": ["drift"]}))
    assert found.kind == "non_finite"
    assert "a forward hook on 'h.1' (drift) stands before it" in found.text


def test_a_hook_of_a_user_that_drifts_is_named_in_a_training():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4)))
    factor = [1.0]
    model[1].register_forward_hook(lambda module, args, out: out * factor[0])
    watched = taiyi_fx.instrument(model, {"Linear": ["InputRMS", "OutputRMS"]})
    for step in range(40):
        factor[0] *= 1.1
        watched(torch.randn(16, 8)).square().mean().backward()
        watched.monitor.track(step)
    found = {one.kind: one for one in watched.monitor.findings}
    assert found["changed_by_hook"].module == "1"
