"""Residual streams that grow by more than the modules on their way can add."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.robust import Numbers, median
from taiyi_fx.findings.facts.watched import Values, Watched, at_common_steps, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_TIMES = 4.0
"""Over the largest sum that is possible: residual connections are weighed by 3 at most."""
_BEYOND, _WITHIN, _FEW = 1.4, 1.1, 3
"""Over the sum of two that all others are within, and how many others show that it is that."""
_FIRST = 3

STREAM_JUMP = Kind(
    "stream_jump",
    "warning",
    "Look at the functions that the model's forward calls between the two: a factor, a constant or "
    "noise that is added, a sum in place of a mean",
)


class _Step(NamedTuple):
    """The stream from one norm to the next.

    Attributes:
        before: The norm before.
        given: The size of what the next one is given.
        bound: The sum of what the norm before is given and all modules between them return.
        sum_of_two: That of what the norm before is given and the last module returns.
        between: The modules between them.
    """

    before: str
    given: Watched
    bound: Numbers
    sum_of_two: Numbers
    between: Sequence[Watched]

    @property
    def most(self) -> float:
        """The largest factor of what is given over the sum of two."""
        return float((self.given.values / self.sum_of_two).max())

    def jumps(self, bound: Numbers, times: float) -> int | None:
        """The first number beyond a bound, if those of the beginning, of half or of the end are."""
        factors = self.given.values / bound
        ends = factors[:_FIRST].min(), median(factors), factors[-_FIRST:].min()
        return int((factors >= times).argmax()) if max(ends) >= times else None


def stream_jumps(evidence: Evidence) -> Iterator[Finding]:
    """Norms that are given more than the norm before was, and all that lies between returns.

    The size of a sum is that of its parts together at most. Where all others are given what the one
    before was and what the last module returns, one that is given more is odd, too.
    """
    steps = [*_steps(evidence)]
    for step in steps:
        others = [other.most for other in steps if other is not step]
        shows_two = len(others) >= _FEW and max(others) <= _WITHIN
        if step.jumps(step.bound, _TIMES) is not None:
            yield from _beyond_all(step, _TIMES, evidence)
        elif shows_two and step.jumps(step.sum_of_two, _BEYOND) is not None:
            yield from _beyond_all(step, _BEYOND, evidence)


def _steps(evidence: Evidence) -> Iterator[_Step]:
    returned = [*evidence.of_quantity("OutputRMS")]
    given = [one for one in evidence.of_quantity("InputRMS") if one.module in evidence.norms]
    for before, one in pairwise(given):
        places = [evidence.modules[site.module] for site in (before, one)]
        between = [s for s in returned if places[0] < evidence.modules[s.module] < places[1]]
        if before.call == one.call and between:
            known, first, *parts = at_common_steps([one, before, *between])
            bound = _sum([first, *parts])
            if len(bound) >= _FIRST and (bound > 0).all():
                two = _sum([first, parts[-1]])
                yield _Step(before.module, known, bound, two, between)


def _sum(parts: Sequence[Watched]) -> Values:
    return np.maximum(np.sum([part.values for part in parts], axis=0), 1e-30)


def _beyond_all(step: _Step, times: float, evidence: Evidence) -> Iterator[Finding]:
    """A finding, if the norm is given more than all that its input is made of, counted together."""
    made_of, named = _parts(step, evidence)
    (before,) = (s for s in evidence.of_quantity("InputRMS") if s.module == step.before)
    given, *parts = at_common_steps([step.given, before, *made_of])
    bound = _sum(parts)
    step = step._replace(given=given)
    i = step.jumps(bound, times) if len(bound) >= _FIRST else None
    shapes = {evidence.flow.shape_before(module) for module in (step.before, given.module)} - {""}
    # What has other rows, as a token of a class that is put before all others, is another stream.
    if i is not None and len(shapes) < 2:
        text = (
            f"the root mean square of what {given.module!r} is given is {given.values[i]:.3g}, "
            f"where what {step.before!r} is given {named} {bound[i]:.3g} at most"
            f"{evidence.made_by(given.module)}"
        )
        yield STREAM_JUMP.at(given, i, text, f"below {bound[i]:.3g}")


def _parts(step: _Step, evidence: Evidence) -> tuple[Sequence[Watched], str]:
    """The outputs that are added to what the norm before is given, as far as known, in words too.

    Not all modules between need be: some may run before what is added, and others be within it.
    """
    returned = evidence.by_module("OutputRMS")
    before, own = (
        evidence.flow.modules_before(module, returned.keys())
        for module in (step.before, step.given.module)
    )
    if not own:
        return step.between, "and what modules between them return add up to"
    parts = [one for module, one in returned.items() if module in own and module not in before]
    if not parts:
        return parts, "is"
    return parts, f"and what {names_of(parts)} return{'s' * (len(parts) == 1)} add up to"
