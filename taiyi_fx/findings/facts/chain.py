"""Factors from module to module: of outputs on their way forward, of gradients on theirs back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched, at_common_steps, grouped, over

InRole = tuple[Watched, str]
"""A series, and the role in which it is compared."""

REPEATED = "repeated"
"""The role of all factors whose own is that of several."""


def made(outputs: Sequence[Watched], norms: Collection[str] = ()) -> Iterator[InRole]:
    """Each output's size over that of the output before it, or likewise of inputs.

    Args:
        outputs: The sizes.
        norms: Modules that return the same size of anything: a factor from or to the input of one
            says how large that is, and not what a module makes.
    """
    for before, one in pairwise(outputs):
        if before.module not in norms and one.module not in norms:
            yield _over(one, before, one.module)


def handed_over(
    outputs: Sequence[Watched],
    inputs: Sequence[Watched],
    norms: Collection[str],
    widths: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> Iterator[InRole]:
    """The inputs of modules over what the one before each returns: 1 of a chain.

    Not of norms, which may be given the sum of a residual stream, nor of a module that is given
    more features than the one before it returns: others are put beside them.

    Args:
        outputs: The sizes of what modules return.
        inputs: The sizes of what they are given.
        norms: The modules that are norms.
        widths: The shape of each module's weight, the features that it returns first.
    """
    given = {one.module: one for one in inputs}
    for before, one in pairwise(outputs):
        if one.module in given and one.module not in norms and not _is_wider(before, one, widths):
            yield _over(given[one.module], before, one.module)


def _is_wider(before: Watched, one: Watched, widths: Mapping[str, Sequence[int]]) -> bool:
    returned, taken = widths.get(before.name, ()), widths.get(one.name, ())
    return len(returned) > 1 and len(taken) > 1 and taken[1] > returned[0]


def passed_back(
    gradients: Sequence[Watched], in_branches: Collection[str] = ()
) -> Iterator[InRole]:
    """The size of the gradient that each module passes on over that of the one it was given.

    Args:
        gradients: The sizes, from the last module on.
        in_branches: Modules of branches that began at nothing: a factor into one, or out of it, is
            like those of the same way alone.
    """
    for given, one in pairwise(gradients):
        factor, role = _over(one, given, given.module)
        is_in = [each.module in in_branches for each in (given, one)]
        yield factor, role if is_in[0] == is_in[1] else f"{role} {is_in}"


def beside_values(
    gains: Iterable[InRole], outputs: Sequence[Watched], inputs: Sequence[Watched]
) -> Iterator[InRole]:
    """The factors of gradients over those of values: 1, or nearly, of a matrix of any size."""
    made = {one.module: one for one in outputs}
    given = {one.module: one for one in inputs}
    for gain, role in gains:
        if gain.module not in made or gain.module not in given:
            yield gain, role
            continue
        gain, out, into = at_common_steps([gain, made[gain.module], given[gain.module]])
        known = (out.values != 0) & (into.values != 0)
        values = gain.values[known] * into.values[known] / out.values[known]
        yield gain._replace(steps=gain.steps[known], values=values), role


def not_cut_off(factors: Iterable[InRole]) -> Iterator[InRole]:
    """Those but of gradients that grow by a factor which the next module undoes, and of that.

    Each beside the usual one of its role. One gradient alone is large there, as that of units which
    an activation cuts off: those of no parameter are.
    """
    every = [(one, role) for one, role in factors if len(one.values)]
    powers = [float(np.log10(median(one.values))) for one, _ in every]
    roles = [role for _, role in every]
    of_role = grouped(range(len(every)), lambda i: roles[i])
    usual = {role: median([powers[i] for i in of]) for role, of in of_role.items()}
    powers = [power - usual[role] for power, role in zip(powers, roles, strict=True)]
    undone = set[int]()
    for i, (a, b) in enumerate(pairwise(powers)):
        if a > 0 > b and abs(a + b) < min(a, -b) / 2:
            undone |= {i, i + 1}
    yield from (pair for i, pair in enumerate(every) if i not in undone)


def beside_their_roles(factors: Iterable[InRole], few: int) -> Iterator[InRole]:
    """Factors of all roles together, each over the usual one of its role, if that is repeated.

    Args:
        factors: The factors.
        few: How many of a role there have to be.
    """
    for group in grouped(factors, lambda factor: factor[1]).values():
        is_repeated = len(group) >= few
        usual = median([median(one.values) for one, _ in group]) if is_repeated else 1.0
        for one, _ in group:
            yield one._replace(values=one.values / usual), REPEATED if is_repeated else "once"


def _over(one: Watched, other: Watched, module: str) -> InRole:
    """One size over another, in the role of both.

    What leads out of a part of the model into the next one, as out of a block without names
    within, is like others of that kind alone. So is what leads from one to the next of modules that
    stand beside each other, as experts do: they are no chain.
    """
    shown = f"the ratio of {one.title} to that of {other.module!r}"
    is_within = _around(one.module) == _around(other.module)
    role = f"{one.role} {other.role}" if is_within else f"{one.role} {other.role} between"
    return over(one, other)._replace(module=module, shown=shown), role


def _around(module: str) -> str:
    return module.rpartition(".")[0]
