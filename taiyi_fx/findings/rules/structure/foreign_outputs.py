"""Linear layers that return more than their weights can make of what they are given."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.attributes import Attributes
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.watched import Watched, at_common_steps
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_TIMES = 2.0
"""Over the norm of the weight, which no input passes: of usual ones, a layer returns a fifth."""
_SHARE = 0.5
"""Of the numbers."""
_NEAR = 0.01

FOREIGN_OUTPUT = Kind(
    "foreign_output",
    "warning",
    "Something else adds to what it returns, or multiplies it: look at its forward, at hooks, and "
    "at what wraps it; noise and offsets have to be small beside what is computed",
)


def foreign_outputs(evidence: Evidence) -> Iterator[Finding]:
    """Linear layers whose outputs are beyond the norm of the weight times that of the input."""
    given = evidence.by_module("InputRMS")
    for one in evidence.of_quantity("OutputRMS"):
        own = evidence.model.attributes.get(one.name)
        is_known = one.module in given and _is_weight_of(own, one, evidence)
        if own is None or not is_known or len(one.values) < STEPS:
            continue
        width, outputs = own.features
        sizes = [one, given[one.module], evidence.parameters.weights[one.module]]
        returned, x, weight = at_common_steps(sizes)
        bound = weight.values * x.values * np.sqrt(width / outputs) + _bias(one, evidence)
        beyond = returned.values > _TIMES * bound
        if len(beyond) and beyond.mean() >= _SHARE:
            i = int(beyond.argmax())
            text = (
                f"step {returned.steps[i]}: what {one.module!r} returns is {returned.values[i]:.3g}"
                f" in size, and its weight can make {bound[i]:.3g} at most of what it is given"
            )
            yield FOREIGN_OUTPUT.at(returned, i, text, f"below {bound[i]:.3g}")


def _is_weight_of(own: Attributes | None, one: Watched, evidence: Evidence) -> bool:
    """True if a layer's weight is a matrix of the numbers of features that it has."""
    count = evidence.parameters.counts.get((one.module, "weight"), 0.0)
    width, outputs = own.features if own else (0, 0)
    is_whole = width * outputs > 0 and abs(count / (width * outputs) - 1) < _NEAR
    return is_whole and one.module in evidence.parameters.weights


def _bias(one: Watched, evidence: Evidence) -> float:
    own = evidence.by_module("ParameterRMS.bias").get(one.module)
    return 0.0 if own is None else float(own.values.max())
