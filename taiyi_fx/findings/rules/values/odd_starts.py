"""Weights that begin at nothing, or nearly, where those of their siblings do not."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.parameters import parameter_of
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched, grouped
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FEW = 3
"""Weights of a role, of which one can be odd."""
_TIMES = 50.0
"""Between its elements and the smallest of its siblings': widths differ by less, mostly."""
_APART, _ALIKE = 3.0, 1.3
"""And between those of weights of one shape, of which all others are within the second factor."""
_BIAS, _BIASES = 1.0, 10.0
"""The size of a bias that begins far from nothing, and how many times that of all others."""

ODD_START = Kind(
    "odd_start",
    "warning",
    "Look at how this module is initialised or loaded: the last of a branch, or of all blocks, may "
    "begin at nothing on purpose, but not one among others",
)


def odd_starts(evidence: Evidence) -> Iterator[Finding]:
    """The one weight among siblings that begins at 0, or of another size than all of them.

    Not the last of them that is smaller: a head, or the end of a branch, is made so on purpose.
    """
    if not evidence.is_from_the_start:
        return
    told = set[str]()
    for found in (*_tiny(evidence), *_of_one_shape(evidence), *_biases(evidence)):
        if found.module not in told:
            told.add(found.module)
            yield found


def _tiny(evidence: Evidence) -> Iterator[Finding]:
    every = (s for s in evidence.of_each("ParameterRMS") if "weight" in s.quantity)
    known = (s for s in every if not _is_gain_of_any(s, evidence))
    for group in grouped(
        known, lambda s: _siblings(s, evidence, of_one_kind=s.is_of_any_role)
    ).values():
        least = min(group, key=lambda one: one.values[0])
        others = [float(one.values[0]) for one in group if one is not least]
        is_odd = len(group) >= _FEW and min(others) > _TIMES * least.values[0]
        if is_odd and least is not max(group, key=lambda one: evidence.modules[one.module]):
            yield _finding(least, others)


def _of_one_shape(evidence: Evidence) -> Iterator[Finding]:
    """Weights of another size than all others of their role and number of elements have."""
    every = (s for s in evidence.of_each("ParameterRMS") if "weight" in s.quantity)
    known = (s for s in every if evidence.parameters.count_of(s))
    groups = grouped(
        known, lambda s: (_siblings(s, evidence), round(evidence.parameters.count_of(s)))
    )
    for group in (group for group in groups.values() if len(group) > _FEW):
        sizes = [float(one.values[0]) for one in group]
        for i, one in enumerate(group):
            others = [*sizes[:i], *sizes[i + 1 :]]
            factor = sizes[i] / median(others)
            is_apart = not 1 / _APART < factor < _APART
            if (
                max(others) <= _ALIKE * min(others)
                and is_apart
                and (factor > 1 or i + 1 < len(group))
            ):
                yield _finding(one, others)


def _biases(evidence: Evidence) -> Iterator[Finding]:
    """Biases far from nothing, where those of their siblings begin near it."""
    biases = (s for s in evidence.of_each("ParameterRMS") if "bias" in s.quantity)
    groups = grouped(biases, lambda s: _siblings(s, evidence))
    for group in (group for group in groups.values() if len(group) > _FEW):
        largest = max(group, key=lambda one: one.values[0])
        others = [float(one.values[0]) for one in group if one is not largest]
        if largest.values[0] >= max(_BIAS, _BIASES * max(others)):
            yield _finding(largest, others)


def _finding(one: Watched, others: list[float]) -> Finding:
    size = f"{one.values[0]:.3g}" if one.values[0] else "exactly 0"
    text = (
        f"the elements of the {parameter_of(one)} of {one.module!r} begin at {size} in size, those "
        f"of {len(others)} others like it at {median(others):.3g}"
    )
    return ODD_START.at(one, 0, text, f"near {median(others):.3g}")


def _siblings(one: Watched, evidence: Evidence, *, of_one_kind: bool = True) -> Hashable:
    """The parameters that it is compared with: of its role, and of its kind.

    Blocks of other lengths have a norm where others have a convolution.
    """
    kind = evidence.kinds[one.module] if of_one_kind else None
    return one.role, one.quantity, one.call, kind


def _is_gain_of_any(one: Watched, evidence: Evidence) -> bool:
    """True for a gain among modules of any class: large matrices have the same quantities."""
    return one.is_of_any_role and one.values[0] > 0 and evidence.parameters.is_vector(one.module)
