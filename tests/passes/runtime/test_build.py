"""Model and plan to an instrumented model."""

import pytest
import torch
from torch import nn

from tests.passes.runtime.given import Python, compiled, due, found, run


@pytest.mark.parametrize("kind", [Python, lambda: nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))])
def test_a_compiled_model_computes_what_it_did_and_reads_what_is_due(kind):
    model, x = kind(), torch.randn(3, 4)
    first = next(name for name, _ in model.named_children())
    made = compiled(model, first)
    expected = model(x)
    made.installation.set_due(due(first))
    y = run(made, x)
    y.sum().backward()
    assert torch.equal(y, expected)
    with torch.no_grad():
        norm = getattr(model, first)(x).norm().item()
    assert found(made, first)["output"] == pytest.approx(norm)
    assert found(made, first)["output_grad"] > 0


def test_what_its_probes_will_never_see_is_among_its_findings():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.never = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.fc(x)

    made = compiled(Unused(), "fc", "never")
    assert list(made.findings) == ["never"]
    assert list(made.parts) == [""]


def test_what_stayed_python_has_no_graph_to_look_at():
    made = compiled(Python(), "fc")
    assert made.parts == {}
    assert list(made.capture.python) == [""]
