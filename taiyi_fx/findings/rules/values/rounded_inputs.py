"""Inputs that are times since 1970 in a format that cannot hold them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_SECONDS = (1.0e9, 2.2e9)
"""Since 1970, from 2001 to 2039."""
_NEAR = 0.2
"""The deviation beside the mean: of numbers that are no times it is mostly more."""
_EXACT = 1e-9
"""The precision of a format that has parts of a second."""

ROUNDED_INPUT = Kind(
    "rounded_input",
    "warning",
    "Take the first time off it, or a remainder of it, in whole numbers or float64, and make it "
    "float32 then",
)


def rounded_inputs(evidence: Evidence) -> Iterator[Finding]:
    """Inputs near the seconds since 1970, as float32, in which these are two minutes apart."""
    least, most = _SECONDS
    for name, looks in evidence.inputs.trained.items():
        known = [one for one in looks if least <= one.mean <= most]
        are_times = all(one.deviation < _NEAR * one.mean for one in known)
        if evidence.series and known and len(known) == len(looks) and are_times:
            mean, epsilon = known[0].mean, known[0].epsilon
            if epsilon > _EXACT:
                apart = epsilon * 2 ** int(np.log2(mean))
                text = (
                    f"the model's input {name!r} is near {mean:.4g}, as seconds since 1970 are, in "
                    f"a format whose numbers are {apart:.3g} apart there"
                )
                others = {"module": "", "value": mean}
                yield ROUNDED_INPUT.at(evidence.series[0], 0, text, "float64", **others)
                return
