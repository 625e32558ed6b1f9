"""Values beyond the range of a narrower format."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_OVER = 1e-4
_UNDER = 0.5

OUT_OF_RANGE = Kind(
    "out_of_range",
    "warning",
    "Use bfloat16, whose range is that of float32, or keep this module in float32; of gradients, "
    "train with a scaler of losses",
)


def out_of_range(evidence: Evidence) -> Iterator[Finding]:
    """Shares of what a format cannot hold: some that is too large, or half too small."""
    for one in evidence.series:
        is_over = one.quantity.endswith("OverflowRate")
        if not is_over and not one.quantity.endswith("UnderflowRate"):
            continue
        value = median(one.last_half)
        if len(one.values) >= STEPS and value >= (_OVER if is_over else _UNDER):
            text = (
                f"{value:.2g} of what {one.quantity} of {one.module!r} counts is too "
                f"{'large' if is_over else 'small'} for the format"
            )
            yield OUT_OF_RANGE.at(one, 0, text, "near 0", value=value)
