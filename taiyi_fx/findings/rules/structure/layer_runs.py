"""Linear layers with nothing between them, and what a layer returns added to itself."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_SHOWN = 4

MISSING_ACTIVATION = Kind(
    "missing_activation",
    "warning",
    "Put an activation behind each of them but the last: without one they are a single linear "
    "layer together, whatever they learn",
)
DOUBLED_OUTPUT = Kind(
    "doubled_output",
    "warning",
    "Look at the forward: where x is what the layer returns already, x = x + x leaves out what it "
    "was given; keep that, and write x + f(x)",
)


def missing_activations(evidence: Evidence) -> Iterator[Finding]:
    """Three linear layers and more that are given just what the one before them returns."""
    for loss in evidence.losses:
        graph = evidence.loss_graphs.get(loss.quantity)
        for run in graph.linear_runs[-1:] if graph else ():  # nodes come from the loss back
            names = ", ".join(map(repr, run[:_SHOWN])) + " and more" * (len(run) > _SHOWN)
            text = (
                f"the linear layers {names} are one behind the other with nothing between them: "
                "together they are one linear layer"
            )
            yield MISSING_ACTIVATION.at(loss, 0, text, "an activation", module=run[0])


def doubled_outputs(evidence: Evidence) -> Iterator[Finding]:
    """Sums of what a layer returns and the same once more."""
    for loss in evidence.losses:
        graph = evidence.loss_graphs.get(loss.quantity)
        for module in graph.doubled[-1:] if graph else ():
            others = len(graph.doubled) - 1 if graph else 0
            of = f"what {module!r} returns" if module else "what a layer returns"
            text = f"on the way to {loss.quantity!r}, {of} is added to itself"
            text += f", and that of {others} more likewise" if others else ""
            yield DOUBLED_OUTPUT.at(loss, 0, text, "x + f(x)", module=module)
