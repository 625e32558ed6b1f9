"""Residual streams that grow by more than the modules on their way can add."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.robust import median
from taiyi_fx.findings.watched import Watched, at_common_steps

_TIMES = 4.0
"""Over the largest sum that is possible: residual connections are weighed by 3 at most."""
_FIRST = 3

STREAM_JUMP = Kind(
    "stream_jump",
    "warning",
    "Look at the functions that the model's forward calls between the two: a factor, a constant or "
    "noise that is added, a sum in place of a mean",
)


def stream_jumps(evidence: Evidence) -> Iterator[Finding]:
    """Norms that are given more than the norm before was, and all that lies between returns.

    The size of a sum is that of its parts together at most.
    """
    returned = [*evidence.of_quantity("OutputRMS")]
    given = [one for one in evidence.of_quantity("InputRMS") if one.module in evidence.norms]
    for before, one in pairwise(given):
        places = [evidence.modules[site.module] for site in (before, one)]
        between = [s for s in returned if places[0] < evidence.modules[s.module] < places[1]]
        if before.call == one.call and between:
            yield from _of_norm(before, one, between, evidence)


def _of_norm(
    before: Watched, one: Watched, between: list[Watched], evidence: Evidence
) -> Iterator[Finding]:
    one, *parts = at_common_steps([one, before, *between])
    bound = np.sum([part.values for part in parts], axis=0)
    times = one.values / np.where(bound > 0, bound, np.inf)
    if len(times) < _FIRST:
        return
    # At first, in most of all, or from some step to the end.
    if max(times[:_FIRST].min(), median(times), times[-_FIRST:].min()) >= _TIMES:
        i = int((times >= _TIMES).argmax())
        functions = ", ".join(evidence.before_module(one.module))
        text = (
            f"the root mean square of what {one.module!r} is given is {one.values[i]:.3g}, where "
            f"what {before.module!r} is given and all that modules between them return add up to "
            f"{bound[i]:.3g} at most"
        )
        text += f"; {functions} make it" if functions else ""
        yield STREAM_JUMP.at(one, i, text, f"below {bound[i]:.3g}")
