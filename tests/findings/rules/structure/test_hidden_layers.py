"""Layers in lists of Python."""

import pytest
import torch
from torch import nn

import taiyi_fx


class Listed(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.first, self.head, self.hidden = nn.Linear(8, 8), nn.Linear(8, 1), hidden

    def forward(self, x):
        x = self.first(x)
        for layer in self.hidden.values() if isinstance(self.hidden, dict) else self.hidden:
            x = layer(x).relu()
        return self.head(x)


def found_in(hidden, *, is_given=False):
    model = Listed(hidden)
    parameters = [*model.parameters()]
    if is_given:
        parameters += [p for layer in hidden for p in layer.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    watched = taiyi_fx.instrument(model, {"Linear": ["OutputRMS"]}, optimizer=optimizer)
    for step in range(3):
        watched(torch.randn(12, 8)).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    return [one for one in watched.monitor.findings if one.kind == "hidden_layers"]


@pytest.mark.parametrize(
    "hidden",
    [
        [nn.Linear(8, 8), nn.Linear(8, 8)],
        (nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8))),
        {"a": nn.Linear(8, 8), "b": nn.Linear(8, 8)},
    ],
    ids=["list", "tuple", "dict"],
)
def test_layers_that_torch_does_not_see_are_a_warning(hidden):
    (found,) = found_in(hidden)
    assert (found.severity, found.module) == ("warning", "")
    assert found.text.startswith("the list 'hidden' keeps 2 modules that torch does not see")


def test_what_is_seen_frozen_or_trained_all_the_same_is_none():
    assert found_in(nn.ModuleList([nn.Linear(8, 8)])) == []
    assert found_in([nn.Linear(8, 8).requires_grad_(False)]) == []
    assert found_in([nn.Linear(8, 8)], is_given=True) == []
    assert found_in([nn.ReLU()]) == []
    assert found_in([]) == []


def test_a_list_of_one_is_a_note():
    (found,) = found_in([nn.Linear(8, 8)])
    assert (found.severity, found.module) == ("note", "")
    assert "keeps 1 module that" in found.text


class Answers:
    """What answers any question with an error of its own."""

    def __getattr__(self, name):
        raise RuntimeError(name)


def test_a_list_of_anything_is_none():
    class Holding(Listed):
        def __init__(self):
            super().__init__([])
            self.others = [Answers()]
            self.numbers = {i: i for i in range(9)}

    model = Holding()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(model, {"Linear": ["OutputRMS"]}, optimizer=optimizer)
    watched(torch.randn(12, 8)).square().mean().backward()
    watched.monitor.track(0)
    assert [one for one in watched.monitor.findings if one.kind == "hidden_layers"] == []
