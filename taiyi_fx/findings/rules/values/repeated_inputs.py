"""A model that is given the same batch again and again, after others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

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
_CODED, _CLASSES = 1e-6, 2000
"""The same of codes, and more classes than one of n is written for."""
_WHOLE = 1e-4
"""A part of one place: numbers are rounded."""
_BY_HEART = 10.0
"""The loss of evaluation beside that of one batch which is learnt by heart."""

REPEATED_INPUT = Kind(
    "repeated_input",
    "warning",
    "Look at the loader: an iterator that is made anew at each step begins with the same batch, "
    "and a worker, a cache or a buffer may hand out the last one again",
)
_ONE_BATCH = (
    "If it is not the whole data set, as of a small one: look for a batch that is taken before the "
    "loop, and an iterator that is made anew at each step"
)


def repeated_inputs(evidence: Evidence) -> Iterator[Finding]:
    """A first module that is given numbers of one and the same size, to the last bit, to the end.

    Of indices, the mean and the deviation. From the start it is a note, as the whole data set at
    each step is a batch, too; unless evaluation shows that it is learnt by heart.
    """
    every = [*_given(evidence)]
    if evidence.is_from_the_start and every and all(_is_one_batch(*one) for one in every):
        site, _ = every[0]
        text = (
            f"what {site.module!r} is given has the same mean square to the last bit at all "
            f"{len(site.steps)} steps that were read, from the first on: one batch"
        )
        severity = "warning" if _is_by_heart(evidence) else "note"
        others = {"severity": severity, "advice": _ONE_BATCH}
        yield REPEATED_INPUT.at(site, 0, text, "another batch at each step", **others)
        return
    for site, others in every:
        i = since(_is_as_last(site, others))
        is_long = len(site.steps) - i >= _FEW and site.steps[-1] - site.steps[i] >= STEPS
        if is_long and _differ(site.steps[:i], site.values[:i], _period(site.steps[i:])):
            text = (
                f"from step {site.steps[i]} on what {site.module!r} is given has the same "
                f"{'mean and deviation' if others else 'root mean square'} to the last bit, "
                f"{site.values[i]:.6g}, at all {len(site.steps) - i} steps that were read"
            )
            yield REPEATED_INPUT.at(site, i, text, "another batch at each step")
            return


def _is_by_heart(evidence: Evidence) -> bool:
    """True if every loss of evaluation is many times as large as all losses of training.

    Not where a loss is of some rows alone, as of nodes of a graph, which is given whole each time.
    """
    if any(graph.takes_rows for _, graph in evidence.logged.graphs):
        return False
    trained, evaluated = (
        [float(s.values[-1]) for s in losses]
        for losses in (evidence.logged.losses, evidence.logged.losses_of_evaluation)
    )
    return bool(trained and evaluated) and min(evaluated) > _BY_HEART * max(trained) > 0


def _is_as_last(site: Watched, others: Sequence[Watched]) -> NDArray[np.bool_]:
    """True for the numbers that are the last ones to the last bit."""
    return np.all([one.values == one.values[-1] for one in (site, *others)], axis=0)


def _is_one_batch(site: Watched, others: Sequence[Watched]) -> bool:
    """True for numbers of a batch, which are no zeros, that are the same from the first on."""
    is_something = len(site.steps) >= STEPS and bool(site.values[-1] or others)
    is_something = is_something and bool(np.isfinite(site.values[-1]))
    is_code = not others and _is_of_codes(float(site.values[-1]))
    return is_something and not is_code and bool(_is_as_last(site, others).all())


def _is_of_codes(size: float) -> bool:
    """True for a root mean square that any batch may have: one of n is 1, all are 1 or -1.

    Sines and cosines of one angle are half of their number together.
    """
    ratio = 1 / size**2 if size else 0.0
    if not 1 - _ROUNDING < ratio < _CLASSES:  # nor where it is NaN, of nothing
        return False
    return abs(ratio - round(ratio)) < _CODED * ratio


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
            if not _are_places(float(mean.values[-1]), float(deviation.values[-1])):
                yield mean, [deviation]


def _are_places(mean: float, deviation: float) -> bool:
    """True for the numbers of places one after the other, and for one and the same index.

    Those of n places, each as often, have a variance of (n^2 - 1) / 12, or n (n + 1) / 12 if it is
    made without a bias of each place once; and they begin at a whole number.
    """
    variance = 12 * deviation**2
    most = np.sqrt(variance + 1)
    counts = range(math.ceil((np.sqrt(4 * variance + 1) - 1) / 2 - _WHOLE), int(most + _WHOLE) + 1)
    firsts = (mean - (count - 1) / 2 for count in counts if count)
    return any(first > -_WHOLE and abs(first - round(first)) < _WHOLE for first in firsts)


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
