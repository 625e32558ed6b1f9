"""Findings, no alerts, that name a step in which something happened: it is worth a second look."""

from __future__ import annotations

from collections.abc import Sequence

from taiyi_fx.findings import Finding

_OF_A_STEP = {"loss_spike", "input_spike"}
"""Kinds whose step is the very one that stood out; most others are of a state that lasts."""


def suspect_steps(findings: Sequence[Finding]) -> set[int]:
    """The steps of such findings, and of such among the consequences of other warnings."""
    warnings = [one for one in findings if one.severity == "warning"]
    every = [each for one in warnings for each in (one, *one.consequences)]
    return {one.step for one in every if one.kind in _OF_A_STEP and one.severity == "warning"}
