"""Factors from module to module: of outputs on their way forward, of gradients on theirs back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

import numpy as np

from taiyi_fx.findings.watched import Watched, at_common_steps

InRole = tuple[Watched, str]
"""A series, and the role in which it is compared."""


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
    outputs: Sequence[Watched], inputs: Sequence[Watched], norms: Collection[str]
) -> Iterator[InRole]:
    """What each module is given over what the one before it returns: 1 of a chain.

    Not of norms, which may be given the sum of a residual stream.
    """
    given = {one.module: one for one in inputs}
    for before, one in pairwise(outputs):
        if one.module in given and one.module not in norms:
            yield _over(given[one.module], before, one.module)


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


def _over(one: Watched, other: Watched, module: str) -> InRole:
    shown = f"{one.title} over that of {other.module!r}"
    one, other = at_common_steps([one, other])
    # Of nothing, a factor says nothing.
    known = (one.values != 0) & (other.values != 0)
    values = np.abs(one.values[known] / other.values[known])
    made = one._replace(module=module, steps=one.steps[known], values=values, shown=shown)
    return made, f"{one.role} {other.role}"
