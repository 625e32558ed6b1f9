"""Branches of a residual stream that add nothing to it, though they are computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from taiyi_fx.findings.blocks import common_block
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.watched import Watched, at_common_steps
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FEW, _BRANCHES = 3, 2
"""Norms of a stream, and the modules before them that return something of its size."""
_SAME = 3e-3
"""The change of the stream that is none: a tenth of it is added by what is a third of its size."""
_SHARE = 0.3

IDLE_BRANCH = Kind(
    "idle_branch",
    "warning",
    "Look at what multiplies the branches before they are added: a scale that begins at next to "
    "nothing has to be a parameter that is trained, or it stays so",
)


def idle_branches(evidence: Evidence) -> Iterator[Finding]:
    """A stream that is the same at all norms to the end, though what lies between returns much.

    Not where a block has parameters of its own beside those of its layers, as the scales of
    branches are that begin at next to nothing and grow.
    """
    given = [s for s in evidence.of_quantity("InputRMS") if s.module in evidence.norms]
    if len(given) < _FEW or len({s.call for s in given}) > 1:
        return
    branches = _branches(given, evidence)
    if len(branches) < _BRANCHES or any(_is_scaled(s.module, evidence) for s in branches):
        return
    first, *others = at_common_steps(given)
    if len(first.values) < 2 * STEPS or not (first.last_half > 0).all():
        return
    apart = max(float(np.abs(one.last_half / first.last_half - 1).max()) for one in others)
    if apart < _SAME:
        last = branches[-1]
        text = (
            f"what {given[-1].module!r} is given is as large as what {first.module!r} is, "
            f"{first.values[-1]:.3g}, to {apart:.1g} of it, though {last.module!r} between them "
            f"returns {last.values[-1]:.3g}: the branches add next to nothing"
        )
        module = common_block([one.module for one in branches])
        yield IDLE_BRANCH.at(first, 0, text, "a stream that changes", module=module, value=apart)


def _branches(given: Sequence[Watched], evidence: Evidence) -> list[Watched]:
    """The last modules before each norm but the first, if they return much of the stream."""
    returned = [*evidence.of_quantity("OutputRMS")]
    place, found = evidence.modules, list[Watched]()
    for before, one in pairwise(given):
        between = [
            s for s in returned if place[before.module] < place[s.module] < place[one.module]
        ]
        if between and _is_much(between[-1], one):
            found.append(between[-1])
    return found


def _is_much(branch: Watched, stream: Watched) -> bool:
    branch, stream = at_common_steps([branch, stream])
    return len(stream.values) > 0 and bool((branch.values > _SHARE * stream.values).all())


def _is_scaled(module: str, evidence: Evidence) -> bool:
    """True for a module within another that has parameters of its own, of any size."""
    parts = module.split(".")
    around = {".".join(parts[:i]) for i in range(len(parts))}
    return any(s.module in around for s in evidence.of_each("ParameterRMS"))
