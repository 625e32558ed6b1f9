"""Layers in lists of Python, where neither torch nor the optimizer sees them."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

HIDDEN_LAYERS = Kind(
    "hidden_layers",
    "warning",
    "Keep them in a torch.nn.ModuleList or ModuleDict, and build the optimizer after that: of a "
    "list, parameters() has nothing, nor has to() or state_dict(). If they are meant to stay as "
    "they are, freeze them by requires_grad_(False)",
)


def hidden_layers(evidence: Evidence) -> Iterator[Finding]:
    """Modules that a list of Python keeps: they get gradients, and nothing trains them.

    A list of one is how a module is hidden on purpose, as a network whose features a loss compares.
    """
    for (module, attribute), count in evidence.hidden.items():
        of = f"of {module!r} " if module else ""
        text = (
            f"the list {attribute!r} {of}keeps {count} module{'s' * (count > 1)} that torch does "
            "not see: gradients reach their parameters, which no optimizer has"
        )
        given = {"module": module, "severity": "warning" if count > 1 else "note"}
        yield HIDDEN_LAYERS.at(evidence.series[0], -1, text, "a ModuleList", **given)
