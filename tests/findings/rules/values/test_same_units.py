"""Layers of which all units compute the same."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx


def found_in(initialise, *, rows=12, features=6, given=None):
    torch.manual_seed(0)
    given = given or features
    layers = [part for _ in range(4) for part in (nn.Linear(features, features), nn.ReLU())]
    layers[0] = nn.Linear(given, features)
    model = nn.Sequential(*layers, nn.Linear(features, 5))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            initialise(parameter)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(10):
        loss = F.cross_entropy(watched(torch.randn(rows, given)), torch.randint(5, (rows,)))
        watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    found = [one for one in watched.monitor.findings if one.kind == "rank_collapse"]
    return [one for one in found if "linear layers" in one.text]


def test_weights_of_one_number_are_a_warning_of_the_model():
    (found,) = found_in(lambda weight: nn.init.constant_(weight, 0.2))
    assert (found.severity, found.module) == ("warning", "")
    assert found.text.startswith("the outputs of '0', '2', '4' and 2 more vary along one direction")


@pytest.mark.parametrize(
    ("initialise", "options"),
    [
        (nn.init.xavier_normal_, {}),
        (nn.init.orthogonal_, {}),
        (lambda weight: nn.init.normal_(weight, std=1e-3), {}),
        (nn.init.xavier_normal_, {"rows": 2}),
        (lambda weight: nn.init.constant_(weight, 0.2), {"features": 3}),
        (lambda weight: nn.init.constant_(weight, 0.2), {"given": 1}),
    ],
    ids=["drawn", "orthogonal", "small", "two rows", "narrow", "one number is given"],
)
def test_units_that_differ_or_cannot_be_told_apart_are_none(initialise, options):
    assert found_in(initialise, **options) == []
