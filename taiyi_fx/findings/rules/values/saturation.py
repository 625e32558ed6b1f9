"""Bounded activations that are at their bounds, where nothing of a gradient passes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.attributes import is_recurrent
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import lasting, since
from taiyi_fx.findings.facts.of_layers import LayerSettings
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_NEAR = 0.97
"""The size of all elements over that of the largest: of a tanh at its ends it is 1."""
_OF_TANH = 0.9
"""The same of a tanh, whose bound is known to be 1."""

_FIRST, _BOUND = 3, 0.9999
"""Numbers of the beginning, and the size at which a state is all one sign."""
_OF_STATES = (
    "Look at the states that it begins with, at the scale of what it is given, and at its weights: "
    "a tanh at its end passes no gradient back"
)

SATURATED = Kind(
    "saturated",
    "warning",
    "Almost all of it is at its bound, where the derivative is zero: look at the scale of the "
    "weights and inputs before it, and at its bounds",
)


def saturated(evidence: Evidence) -> Iterator[Finding]:
    """Modules without parameters whose outputs nearly all have the largest size there is."""
    largest = evidence.by_module("OutputAbsMax")
    yield from _recurrent(evidence)
    with_parameters = {s.name for s in evidence.series if s.direction == "parameter"}
    for one in evidence.of_quantity("OutputRMS"):
        bound = largest.get(one.module)
        if bound is None or one.name in with_parameters or len(bound.values) != len(one.values):
            continue
        # A bound stays the same from step to step, as the largest of many numbers does not.
        is_bound = np.isclose(bound.values, bound.values[0], rtol=1e-3)
        kind = evidence.model.settings.get(one.name, LayerSettings()).kind
        near = _OF_TANH if kind == "Tanh" else _NEAR
        is_near = (one.values >= near * bound.values) & (one.values > 0) & is_bound
        if lasting(is_near):
            i = since(is_near)
            text = (
                f"step {one.steps[i]}: nearly all outputs of {one.module!r} are at its bound of "
                f"{bound.values[i]:.3g} from here on"
            )
            yield SATURATED.at(one, i, text, f"below {bound.values[i]:.3g}")


def _recurrent(evidence: Evidence) -> Iterator[Finding]:
    """Recurrent layers that begin at their bound of 1, which usual weights keep away from."""
    for one in evidence.of_quantity("OutputAbsMax") if evidence.is_from_the_start else ():
        first = one.values[:_FIRST]
        is_known = is_recurrent(one.name, evidence.model.attributes) and len(first) == _FIRST
        if is_known and first.min() >= _BOUND and first.max() <= 1:
            text = f"some of what {one.module!r} returns is at its bound of 1 from the start"
            yield SATURATED.at(one, 0, text, "below 1", advice=_OF_STATES)
