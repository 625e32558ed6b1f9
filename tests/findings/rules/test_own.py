"""Rules that users declare with their quantities."""

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import Verdict, output, quantity
from taiyi_fx.quantities.health import keep_own_rule, own_rule_of


def loud(steps, values):
    if (values > 1).any():
        i = int(np.argmax(values > 1))
        return Verdict("is loud", steps[i], advice="Turn it down", expected="below 1")
    return None


def fails(steps, values):
    values[:] = 0
    return values.nothing


@quantity(rule=loud, norm=output.norm)
def own_loudness(norm):
    """Norm of the output."""
    return norm


@quantity(rule=fails, norm=output.norm)
def own_failure(norm):
    """Norm of the output."""
    return {"": norm, "part": norm}


def train(quantities, run=None):
    layers = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    model = nn.Sequential(*layers)
    for layer in layers:
        nn.init.eye_(layer.weight)
    model = taiyi_fx.instrument(model, {"1": quantities}, run=run)
    for step in range(4):
        model(torch.full((1, 3), 0.25 + step)).sum().backward()
        model.monitor.track(step)
    return model.monitor


def test_its_verdict_is_among_the_findings_of_the_monitor_and_of_the_run(tmp_path):
    monitor = train(["own_loudness"], tmp_path / "run")
    of_monitor = monitor.findings
    monitor.close()
    with taiyi_fx.open_run(tmp_path / "run") as run:
        assert run.findings == of_monitor
    (found,) = of_monitor
    assert (found.kind, found.module, found.quantity) == ("own_rule", "1", "own_loudness")
    assert (found.step, found.severity, found.expected) == (1, "warning", "below 1")
    assert str(found) == "warning own_rule: step 1: own_loudness of '1' is loud. Turn it down"


def test_one_that_fails_is_a_note_and_changes_no_numbers():
    found = train(["own_failure", "own_loudness"]).findings
    assert [(f.kind, f.severity) for f in found] == [
        ("own_rule", "warning"),
        ("rule_failed", "note"),
    ]
    assert "'own_failure' failed: AttributeError" in found[1].text
    assert [f.quantity for f in found[1].consequences] == ["own_failure.part"]


def test_two_quantities_each_have_a_finding():
    @quantity(rule=lambda steps, values: Verdict("is there"), norm=output.norm)
    def own_presence(norm):
        return norm

    found = train(["own_presence", "own_loudness"]).findings
    assert [f.quantity for f in found] == ["own_presence", "own_loudness"]
    assert found[0].step == 0


def test_a_rule_is_found_by_the_name_of_a_part_and_forgotten_with_the_declaration():
    keep_own_rule("own_example", loud)
    assert own_rule_of("own_example.weight") is loud
    assert own_rule_of("own_exampl") is None
    keep_own_rule("own_example", None)
    assert own_rule_of("own_example") is None


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="rule is a function of steps and values, not 'lasting'"):
        quantity("own_text", rule="lasting", norm=output.norm)(lambda norm: norm)
