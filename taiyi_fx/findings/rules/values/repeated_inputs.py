"""A model that is given the same batch again and again, after others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS, since
from taiyi_fx.findings.facts.watched import Steps, Values, Watched, at_common_steps
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.values.inputs import is_given_the_batch, is_made_within

_FEW = 3
"""Numbers in a row that are equal to the last bit: of other batches, not two are."""
_ROUNDING = 1e-5
"""The share by which sizes differ that are rounded otherwise: sines and cosines of one angle have a
size of the root of a half together, whatever the angle is."""

REPEATED_INPUT = Kind(
    "repeated_input",
    "warning",
    "Look at the loader: an iterator that is made anew at each step begins with the same batch, "
    "and a worker, a cache or a buffer may hand out the last one again",
)


def repeated_inputs(evidence: Evidence) -> Iterator[Finding]:
    """A first module that is given numbers of one and the same size, to the last bit, to the end.

    Of indices, the mean and the deviation. Not from the start, as of a training by the whole data
    set at each step.
    """
    for site, others in _given(evidence):
        same = np.all([one.values == one.values[-1] for one in (site, *others)], axis=0)
        i = since(same)
        is_long = len(site.steps) - i >= _FEW and site.steps[-1] - site.steps[i] >= STEPS
        if is_long and _differ(site.steps[:i], site.values[:i], _period(site.steps[i:])):
            text = (
                f"from step {site.steps[i]} on what {site.module!r} is given has the same "
                f"{'mean and deviation' if others else 'size'} to the last bit, "
                f"{site.values[i]:.6g}, at all {len(site.steps) - i} steps that were read"
            )
            yield REPEATED_INPUT.at(site, i, text, "another batch at each step")
            return


def _given(evidence: Evidence) -> Iterator[tuple[Watched, list[Watched]]]:
    """The series that tell one batch from another, of the first module and of embeddings."""
    first = next(evidence.of_quantity("InputRMS"), None)
    if first is not None and is_given_the_batch(first.module, evidence):
        yield first, []
    deviations = evidence.by_module("InputStd")
    for one in evidence.of_quantity("InputMean"):
        # What the model itself makes has no loader: `alike_rows` looks at such indices.
        if one.module in deviations and not is_made_within(one.module, evidence):
            mean, deviation = at_common_steps([one, deviations[one.module]])
            yield mean, [deviation]


def _period(steps: Steps) -> int:
    """The largest number of batches in an epoch by which each of some steps has the same one."""
    return int(np.gcd.reduce(np.diff(steps)))


def _differ(steps: Steps, values: Values, period: int) -> bool:
    """True if batches that are so many steps apart were different before, beyond rounding."""
    known = dict(zip(steps.tolist(), values.tolist(), strict=True))
    later = ((value, known.get(step + period)) for step, value in known.items())
    return any(other is not None and _is_another(value, other) for value, other in later)


def _is_another(value: float, other: float) -> bool:
    return abs(value - other) > _ROUNDING * abs(value)
