"""Graphs as Python functions."""

import warnings

import pytest
import torch
from torch import nn

import taiyi_fx
from tests.passes.rewrite.given import probed, ran


def test_emitted_code_calls_each_modules_own_forward():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
    graph, _ = probed(model, ["0", "1", "2"])
    x = torch.randn(3, 4)
    assert torch.equal(ran(graph, model, x), model(x))


class Deprecated(nn.Linear):
    def forward(self, x):
        warnings.warn("deprecated", stacklevel=2)
        return super().forward(x)


@pytest.mark.parametrize("due", ["every(1)", "every(3)"])
def test_a_warning_that_forwards_place_in_their_caller_is_shown_as_one_place(due):
    model, x = nn.Sequential(*(Deprecated(4, 4) for _ in range(6))), torch.randn(3, 4)
    instrumented = taiyi_fx.instrument(model, {"*": [["OutputRMS", due]]})
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for step in range(5):
            instrumented(x).sum().backward()
            instrumented.monitor.track(step)
    # Steps at which nothing is due run the model's own forwards, which torch calls.
    assert len([w for w in shown if str(w.message) == "deprecated"]) == (1 if "1" in due else 2)
