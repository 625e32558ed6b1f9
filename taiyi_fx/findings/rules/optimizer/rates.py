"""Groups of the optimizer whose learning rate is not that of the others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.blocks import in_blocks
from taiyi_fx.findings.causes import by_severity
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding, Severity
from taiyi_fx.findings.kind import Kind

_FACTOR = 30.0
"""Between learning rates; discriminative rates and those of adapters differ by less."""
_OF_STEPS = 5.0
_FAR = 300.0
"""Between rates that nobody means to differ so, whatever the steps are; by a third of it these."""
_LARGE, _SMALL = 0.02, 3e-5
"""Sizes of steps beside that of the weight: rates may differ where steps are usual."""

ODD_RATE = Kind(
    "odd_rate",
    "alert",
    "Look at the learning rate of this group of the optimizer, and at which parameters are in it",
)


def odd_rates(evidence: Evidence) -> Iterator[Finding]:
    """A group of the optimizer whose rate and steps are both of another size than the others'."""
    steps = {
        s.module: s for s in evidence.steps_of_weights if s.module in evidence.optimizer.groups
    }
    found: list[Finding] = []
    for group in sorted({evidence.optimizer.groups[module][0] for module in steps}):
        own = [s for m, s in steps.items() if evidence.optimizer.groups[m][0] == group]
        others = [s for m, s in steps.items() if evidence.optimizer.groups[m][0] != group]
        if len(own) <= len(others):
            found += _of_group(own, others, evidence)
    # Of two groups, the one whose steps are too large is the one to look at.
    yield from by_severity(found)


def in_group(module: str, evidence: Evidence) -> str:
    """The ending of a sentence on a module whose group has a rate of its own; else nothing."""
    known = evidence.optimizer.groups
    found = {g for m, g in known.items() if m == module or m.startswith(f"{module}.")}
    if len(found) != 1 or len({rate for _, rate in known.values()}) == 1:
        return ""
    ((group, rate),) = found
    return f"; it is in group {group} of the optimizer, whose learning rate is {rate:.3g}"


def _of_group(own: list[Watched], others: list[Watched], evidence: Evidence) -> Iterator[Finding]:
    rates = [median([evidence.optimizer.groups[s.module][1] for s in of]) for of in (own, others)]
    # Steps beside a weight that grew by them are small once more: the first tell it, too.
    for count in (STEPS, None):
        sizes = [_size(of, count) for of in (own, others)]
        severity = _severity(rates, sizes)
        if severity is not None:
            yield _finding(own, rates, sizes, evidence, severity)
            return


def _size(series: list[Watched], count: int | None) -> float:
    known = [s.values[:count][s.values[:count] > 0] for s in series]
    return median([median(x) for x in known if len(x)] or [np.nan])


def _severity(rates: list[float], sizes: list[float]) -> Severity | None:
    size, usual = sizes
    # Equal ones are those of a schedule that has ended. A group that waits for its turn has a rate
    # of 0, and what does not move has no size of steps.
    if rates[0] == rates[1] or 0 in rates or np.isnan(sizes).any():
        return None
    if rates[0] >= _FACTOR * rates[1] and size >= max(_LARGE, _OF_STEPS * usual):
        return "alert"
    is_small = rates[0] <= rates[1] / _FACTOR and size <= min(_SMALL, usual / _OF_STEPS)
    if is_small or (rates[0] <= rates[1] / _FAR and size <= 3 * usual / _FAR):
        return "warning"
    return None


def _finding(
    own: list[Watched],
    rates: list[float],
    sizes: list[float],
    evidence: Evidence,
    severity: Severity,
) -> Finding:
    site, name = next(iter(in_blocks(own, evidence.parameters.weights)))
    group, rate = evidence.optimizer.groups[site.module]
    usual = rates[1]
    more = f" and {len(own) - 1} more modules" if name == site.module and len(own) > 1 else ""
    text = (
        f"group {group} of the optimizer, with {name!r}{more}, has a learning rate of {rate:.3g}, "
        f"where others have {usual:.3g}: its steps are {sizes[0]:.1e} of the weights' "
        f"size, theirs {sizes[1]:.1e}"
    )
    expected = f"a learning rate near {usual:.3g}"
    return ODD_RATE.at(site, 0, text, expected, module=name, value=rate, severity=severity)
