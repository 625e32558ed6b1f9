"""What a plan cannot get from a graph is said, and nothing of what only a run can tell."""

import warnings

from torch import nn

import taiyi_fx
from taiyi_fx.passes.rewrite.verify_probes import verify_probes
from taiyi_fx.testing.blocks import Branch, Chain
from tests.passes.rewrite.given import probed


def test_verification_names_calls_that_never_come_and_gradients_that_cannot():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c, self.never = (nn.Linear(4, 4) for _ in range(4))

        def forward(self, x):
            self.c(x)  # leads nowhere
            return self.b(self.a(x).detach())

    model = Model()
    names = ["a", "b", "c", "never"]
    graph, table = probed(model, names)
    findings = verify_probes(model, {"": graph}, table.plan, {})
    assert set(findings) == {"a", "c", "never"}
    assert "never calls" in findings["never"]
    assert "no gradient can reach it" in findings["a"]


def test_what_is_changed_in_place_goes_on_under_another_name():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.relu, self.aside = nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4)

        def forward(self, x):
            y = self.fc(x)
            self.relu(y)
            self.aside(y)
            return y

    model = Model()
    graph, table = probed(model, ["fc", "relu", "aside"])
    assert set(verify_probes(model, {"": graph}, table.plan, {})) == {"aside"}


def test_modules_below_a_forward_that_stayed_python_are_not_called_missing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = taiyi_fx.instrument(Chain(Branch()), {nn.Linear: ["InputSndNorm"]})
    assert list(model.capture.python) == ["", "first", "first.0"]
