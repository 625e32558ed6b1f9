"""Gradients of single weights that jump at a step, though what makes them does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from taiyi_fx.findings.facts.attributes import is_recurrent
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.robust import Numbers, median
from taiyi_fx.findings.facts.watched import Watched, at_common_steps
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.rules.gradients.gradients import CHANGED

_TIMES = 300.0
"""Over its usual size, beside what its layer is given and the gradient that comes to it: rows of a
batch that all pull one way make it larger by the root of their number alone."""
_OTHERS = 30.0
"""The largest jump of another weight at that step: else it is the loss or the batch."""
_FEW = 2
_OWN = 0.99
"""The cosine of a weight's gradient and the one that its layer makes, as long as it is that."""


class _Jump(NamedTuple):
    """The largest jump of a weight's gradient.

    Attributes:
        site: The gradient's size.
        i: The index of the first number that has jumped.
        times: How many times the usual size it is there.
    """

    site: Watched
    i: int
    times: float


def gradient_steps(evidence: Evidence) -> Iterator[Finding]:
    """The one weight whose gradient is hundreds of times its usual one at some steps.

    Beside the sizes of the layer's input and of its output's gradient, of which it is made.
    """
    own = [(s, explained) for s, explained in _explained(evidence) if len(s.values) >= STEPS]
    if len(own) <= _FEW:
        return
    jumps = [_jump(s, sizes) for s, sizes in own]
    agreed = evidence.by_module("WeightGradAgreement")
    for jump in jumps:
        if jump is None:
            continue
        agreement = agreed.get(jump.site.module)
        if agreement is not None and not median(agreement.values) > _OWN:
            continue  # other backwards bring its layer gradients, of which the weight has none
        step = jump.site.steps[jump.i]
        others = [_at(s, sizes, int(step)) for s, sizes in own if s.module != jump.site.module]
        if max(others) < _OTHERS:
            text = (
                f"step {step}: the gradient of {jump.site.module!r} is {jump.times:.3g} times "
                "what it is else beside what its layer is given and returns; those of others are "
                "as they were"
            )
            yield CHANGED.at(jump.site, jump.i, text, "about as large as at other steps")


def _explained(evidence: Evidence) -> Iterator[tuple[Watched, Numbers]]:
    """The gradient of each weight, and its size over that of what it is made of."""
    given = evidence.by_module("InputRMS")
    returned = evidence.by_module("OutputGradRMS")
    for module, gradient in evidence.parameters.weight_gradients.items():
        if is_recurrent(gradient.name, evidence.model.attributes):
            continue  # whose gradient grows on its way through time
        makers = [of[module] for of in (given, returned) if module in of]
        if module in returned:
            gradient, *sizes = at_common_steps([gradient, *makers])
            made_of = np.prod([s.values for s in sizes], axis=0)
            known = (made_of > 0) & (gradient.values > 0)
            yield gradient.at(known), gradient.values[known] / made_of[known]


def _jump(site: Watched, sizes: Numbers) -> _Jump | None:
    """The first step at which it has jumped; None if it never has, or begins so."""
    usual = median(sizes[: max(STEPS, len(sizes) // 2)])
    far = np.flatnonzero(sizes >= _TIMES * usual)
    if not len(far) or far[0] < _FEW:
        return None
    return _Jump(site, int(far[0]), float(sizes[far[0]] / usual))


def _at(site: Watched, sizes: Numbers, step: int) -> float:
    """How many times its usual size another is at a step; 0 if it is not known."""
    now = sizes[site.steps == step]
    return float(now[0] / median(sizes)) if len(now) else 0.0
