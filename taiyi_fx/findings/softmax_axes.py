"""Softmaxes of an attention's scores over another axis than that of its siblings, or the last."""

from __future__ import annotations

import re
from collections.abc import Iterator

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.watched import role_of

_OVER = re.compile(
    r"a softmax over axis (-?\d+) of a tensor of shape (\([\d, ]*\)) is no attention"
)
_ASKED = "AttentionEntropy"

SOFTMAX_AXIS = Kind(
    "softmax_axis",
    "note",
    "The weights that each query gives to its keys have to add up to 1: take the softmax over the "
    "axis that their product with values sums over",
)


def softmax_axes(evidence: Evidence) -> Iterator[Finding]:
    """Modules that take the softmax of products over an axis that is not the last.

    A warning where siblings take it over the last axis; else the layout may be another.
    """
    first = next(iter(evidence.series), None)
    right = {role_of(s.module) for s in evidence.of_quantity(_ASKED)}
    told = set[str]()
    for (module, quantity), reason in sorted(evidence.reasons.items()):
        over = _OVER.search(reason) if quantity == _ASKED else None
        role = role_of(module)
        if over is None or first is None or role in told:
            continue
        is_odd = role in right
        if not is_odd:
            told.add(role)
        text = (
            f"the softmax in {module!r} is over axis {over[1]} of scores of shape {over[2]}, and "
            + ("that of others like it over the last" if is_odd else "not over the last")
        )
        severity = "warning" if is_odd else "note"
        facts = {"module": module, "quantity": _ASKED, "severity": severity}
        yield SOFTMAX_AXIS.at(first, 0, text, "the last axis", value=float(over[1]), **facts)
