"""Adapters that are frozen with the model that they are to adapt."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

FROZEN_ADAPTERS = Kind(
    "frozen_adapters",
    "warning",
    "Freeze the model before adapters are put in, or call requires_grad_(True) for them; peft's "
    "from_pretrained takes is_trainable=True",
)


def frozen_adapters(evidence: Evidence) -> Iterator[Finding]:
    """Adapters of which none is trained, in a model of which something else is."""
    names = evidence.frozen_adapters
    if names and evidence.series:
        more = f" and {len(names) - 1} more" if names[1:] else ""
        text = (
            f"no adapter is trained: those of {names[0]!r}{more} do not require gradients, though "
            "other parameters do"
        )
        yield FROZEN_ADAPTERS.at(evidence.series[0], 0, text, "trained ones", module=names[0])
