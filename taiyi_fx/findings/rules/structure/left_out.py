"""Blocks that lack what all others like them have: the residual connection, or the norm."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched, at_common_steps, grouped, over, role_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FEW = 3
"""Others of a role below which nobody knows what is usual."""
_SAME, _OTHER = 1e-5, 1e-2
"""How near to 1 the factor of a tensor over itself is, and how far that of a sum over one part."""
_FACTOR = 1.5
"""Between what a norm returns and what a module is given without one."""

MISSING_RESIDUAL = Kind(
    "missing_residual",
    "warning",
    "Look at the forward of this block: x + f(x) keeps what came before it, f(x) alone loses it",
)
MISSING_NORM = Kind(
    "missing_norm",
    "warning",
    "Look at the forward of this block, and at what stands in the place of its norm",
)


class _Handed(NamedTuple):
    """The size of what a module is given beside that of what the one before it returns.

    Attributes:
        before: The name of the one before it.
        given: The size of what the module is given.
        factor: That over the size of what the one before it returns.
    """

    before: str
    given: Watched
    factor: Watched

    @property
    def is_same(self) -> bool:
        """True if the one is the other, at all steps."""
        return bool((np.abs(self.factor.values - 1) < _SAME).all())

    @property
    def is_other(self) -> bool:
        """True if something is added to it, or it comes from elsewhere, at nearly all steps."""
        return bool((np.abs(self.factor.values - 1) > _OTHER).mean() > 0.9)


def missing_residuals(evidence: Evidence) -> Iterator[Finding]:
    """The one block of many that hands on what its last module returns, without what came before.

    Not where it has another shape: between stages of a network nothing can be added. And one that
    begins at nothing, by which what comes behind it is given nothing at first.
    """
    of_nothing = [*_handing_on_nothing(evidence)]
    yield from of_nothing
    if of_nothing:
        return
    for group in _in_roles(evidence, with_before=True):
        lacking = [one for one in group if one.is_same] or [*_without_sum(group, evidence)]
        others = [one for one in group if one.is_other and one not in lacking]
        if len(lacking) != 1 or len(others) < max(_FEW, len(group) - 1):
            continue
        (one,) = lacking
        if _is_of_one_shape(one, others, evidence):
            text = (
                f"{one.given.module!r} is given what {one.before!r} returns, and nothing else, "
                f"where {len(others)} others like it are given a sum of it and of what came before"
            )
            yield MISSING_RESIDUAL.at(one.factor, 0, text, "a sum", module=one.before)


def _handing_on_nothing(evidence: Evidence) -> Iterator[Finding]:
    """The first module that begins at nothing and makes all that the next one is given."""
    given = evidence.by_module("InputRMS")
    for before, one in pairwise(evidence.of_quantity("OutputRMS")):
        x = given.get(one.module)
        if x is None or x.steps[0] or not evidence.parameters.began_at_zero(before.module):
            continue
        if x.values[0] == 0 == before.values[0] and x.values.any() and before.name != one.name:
            text = (
                f"{one.module!r} is given exactly 0 at first, as {before.module!r} begins at "
                "nothing, and nothing is added to what it returns"
            )
            yield MISSING_RESIDUAL.at(x, 0, text, "a sum", module=before.module)
            return


def _without_sum(group: list[_Handed], evidence: Evidence) -> Iterator[_Handed]:
    """The one that is given the least at all steps, if functions before it add nothing to it.

    Those before others do, as far as they are shown.
    """
    factors = at_common_steps([one.factor for one in group])
    table = np.stack([factor.values for factor in factors])
    rows = np.unique(table.argmin(0)).tolist()
    least = group[rows[0]]
    if len(rows) == 1 and _adds(least, evidence) is False:
        adds = {_adds(one, evidence) for one in group if one is not least} - {None}
        if adds == {True}:
            yield least


def _adds(one: _Handed, evidence: Evidence) -> bool | None:
    """True if a function before it adds; None if none is known."""
    functions = evidence.flow.before_module(one.given.module)
    return any("add" in name for name in functions) if functions else None


def missing_norms(evidence: Evidence) -> Iterator[Finding]:
    """The one module of many that is given what no norm returns, and of another size.

    Not the first of them: what the model begins with may be normalized already.
    """
    for group in _in_roles(evidence, with_before=False):
        normed = [one for one in group if one.before in evidence.norms and one.is_same]
        others = [one for one in group[1:] if one.before not in evidence.norms]
        if len(others) != 1 or len(normed) < max(_FEW, len(group) - 1):
            continue
        (one,) = others
        usual = median([median(other.given.values) for other in normed])
        value = median(one.given.values)
        if not 1 / _FACTOR < value / usual < _FACTOR:
            text = (
                f"{one.given.module!r} is given {value:.3g} in size, by no norm, where "
                f"{len(normed)} others like it are given {usual:.3g} by one"
            )
            yield MISSING_NORM.at(one.given, 0, text, f"near {usual:.3g}", value=value)


def _in_roles(evidence: Evidence, *, with_before: bool) -> Iterator[list[_Handed]]:
    """The modules of each role, and of the same number of elements; if asked, of both roles."""
    given = evidence.by_module("InputRMS")
    found: list[tuple[Hashable, _Handed]] = []
    for before, one in pairwise(evidence.of_quantity("OutputRMS")):
        if one.module in given:
            handed = _handed(before, given[one.module])
            count = round(evidence.parameters.counts.get((one.module, "weight"), 0.0))
            key = _role_in_block(one), count, _role_in_block(before) if with_before else ""
            if len(handed.factor.steps) >= STEPS:
                found.append((key, handed))
    groups = grouped(found, lambda pair: pair[0]).values()
    return ([handed for _, handed in group] for group in groups if len(group) > _FEW)


def _role_in_block(one: Watched) -> str:
    """Its role, with the number of its own where blocks have numbers, too: ``*.mlp.2``."""
    around, _, last = one.module.rpartition(".")
    return f"{role_of(around)}.{last if '*' in role_of(around) else role_of(last)}"


def _handed(before: Watched, given: Watched) -> _Handed:
    factor = over(given, before)
    return _Handed(before.module, given.at(np.isin(given.steps, factor.steps)), factor)


def _is_of_one_shape(one: _Handed, others: list[_Handed], evidence: Evidence) -> bool:
    """True if the shape of what it is given is known, and no other of them has another.

    And if the block before it was given the same: where it makes another, nothing can be added.
    """
    shape = evidence.flow.shape_before(one.given.module)
    known = {evidence.flow.shape_before(other.given.module) for other in others} - {""}
    around = _part_of(one.before, one.given.module)
    first = next((name for name in evidence.modules if f"{name}.".startswith(around)), "")
    return shape != "" and known == {shape} == {evidence.flow.shape_before(first)}


def _part_of(module: str, other: str) -> str:
    """The largest part that a module is in, and another is not: ``"h.2."`` for that of ``h.3``."""
    parts = module.split(".")
    others = [*other.split("."), *parts]
    same = next((i for i, part in enumerate(parts) if part != others[i]), len(parts))
    return ".".join(parts[: same + 1]) + "."
