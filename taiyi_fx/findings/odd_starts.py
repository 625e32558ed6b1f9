"""Weights that begin at nothing, or nearly, where those of their siblings do not."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.robust import median
from taiyi_fx.findings.watched import Watched

_FEW = 3
"""Weights of a role, of which one can be odd."""
_TIMES = 50.0
"""Between its elements and the smallest of its siblings': widths differ by less, mostly."""

ODD_START = Kind(
    "odd_start",
    "warning",
    "Look at how this module is initialised or loaded: the last of a branch, or of all blocks, may "
    "begin at nothing on purpose, but not one among others",
)


def odd_starts(evidence: Evidence) -> Iterator[Finding]:
    """The one weight among siblings that begins at 0, or 50 times as small as all of them.

    Not the last of them: a head, or the end of a branch, is made so on purpose.
    """
    if not evidence.is_from_the_start:
        return
    groups: dict[object, list[Watched]] = {}
    for one in evidence.of_each("ParameterRMS"):
        if "weight" in one.quantity and not _is_gain_of_any(one, evidence):
            groups.setdefault(_siblings(one, evidence), []).append(one)
    for group in groups.values():
        least = min(group, key=lambda one: one.values[0])
        others = [float(one.values[0]) for one in group if one is not least]
        is_odd = len(group) >= _FEW and min(others) > _TIMES * least.values[0]
        if is_odd and least is not max(group, key=lambda one: evidence.modules[one.module]):
            size = f"{least.values[0]:.3g}" if least.values[0] else "exactly 0"
            text = (
                f"the elements of the weight of {least.module!r} begin at {size} in size, those of "
                f"{len(others)} others like it at {median(others):.3g}"
            )
            yield ODD_START.at(least, 0, text, f"near {median(others):.3g}")


def _siblings(one: Watched, evidence: Evidence) -> object:
    """The weights that it is compared with: of its role, and of its kind."""
    kind = evidence.kinds[one.module] if _is_of_any(one) else None
    return one.role, one.quantity, one.call, kind


def _is_gain_of_any(one: Watched, evidence: Evidence) -> bool:
    """True for a gain among modules of any class: large matrices have the same quantities."""
    return _is_of_any(one) and one.values[0] > 0 and evidence.is_vector(one.module)


def _is_of_any(one: Watched) -> bool:
    """True for a name such as "0", which says nothing of a module's role."""
    return one.role.rpartition(".")[2] == "*"
