"""Weights of exactly zero that stay so, through which no gradient passes."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS, lasting, mostly
from taiyi_fx.findings.facts.watched import Watched, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

ZERO_WEIGHT = Kind(
    "zero_weight",
    "alert",
    "A weight of zero that does not learn multiplies everything by zero: unfreeze it, load it, or "
    "begin with another one",
)


def zero_weights(evidence: Evidence) -> Iterator[Finding]:
    """Modules whose weight is exactly zero and has no gradient, or one of zero, and so stays.

    A branch that begins at zero has a gradient, by which it leaves zero.
    """
    for one in evidence.parameters.weights.values():
        gradient = evidence.parameters.weight_gradients.get(one.module)
        is_fixed = one.module in evidence.called and (gradient is None or not gradient.values.any())
        if is_fixed and len(one.values) >= STEPS and not one.values.any():
            yield from _of_module(one, evidence)


def _of_module(one: Watched, evidence: Evidence) -> Iterator[Finding]:
    cut, returned = _cut_off_by(one, evidence), evidence.of_quantity("OutputRMS")
    is_silent = any(s.module == one.module and lasting(s.values == 0) for s in returned)
    if cut or is_silent:
        text = f"the weight of {one.module!r} is exactly 0 and does not learn"
        text += f", so that {names_of(cut)} before it get no gradient" if cut else ""
        yield ZERO_WEIGHT.at(one, 0, text, "above 0")


def _cut_off_by(one: Watched, evidence: Evidence) -> list[Watched]:
    """The modules right before one whose gradient is exactly zero; up to the first that has one."""
    cut: list[Watched] = []
    place = evidence.modules[one.module]
    for other in reversed(evidence.parameters.weight_gradients.values()):
        if evidence.modules[other.module] < place:
            if not mostly(other.values == 0):
                break
            cut.insert(0, other)
    return cut
