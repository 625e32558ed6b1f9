"""Rules of users' own, declared with their quantities."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.quantities.health import OwnRule, Verdict, own_rule_of

OWN = Kind("own_rule", "warning", "")
FAILED = Kind(
    "rule_failed",
    "note",
    "Correct the function: it takes the steps and the numbers of a series, as arrays, and returns "
    "a Verdict or None",
)


def own_rules(evidence: Evidence) -> Iterator[Finding]:
    """The verdicts of rules that were declared with the quantities of series."""
    for one in evidence.series:
        rule = own_rule_of(one.quantity) if one.direction else None
        if rule is not None:
            yield from _judged(one, rule)


def _judged(one: Watched, rule: OwnRule) -> Iterator[Finding]:
    try:
        # Of its own, so that it cannot change what other rules see.
        verdict = rule(one.steps.copy(), one.values.copy())
        if verdict is not None:
            yield _finding(one, verdict)
    except Exception as error:  # noqa: BLE001 - any that a user's function raises: it is told
        text = f"the rule of {one.quantity!r} failed: {type(error).__name__}: {error}"
        yield FAILED.at(one, 0, text)


def _finding(one: Watched, verdict: Verdict) -> Finding:
    step = one.steps[0] if verdict.step is None else verdict.step
    i = min(int(np.searchsorted(one.steps, step)), len(one.steps) - 1)
    text = f"step {one.steps[i]}: {one.quantity} of {one.module or 'the model'!r} {verdict.text}"
    return OWN.at(one, i, text, verdict.expected, severity=verdict.severity, advice=verdict.advice)
