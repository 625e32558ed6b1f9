"""Inputs of evaluation that are distributed otherwise than those of training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.given_inputs import Distribution
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.losses.evaluations import is_far_above

_FEW = 2
"""Forwards in each mode, of which one may be odd."""
_TIMES, _SHIFT = 1.75, 0.9
"""The deviation of one mode over all of the other, and a shift of the mean beside it, that a loss
of evaluation may be far above by: images of 0 to 1 beside such of -1 to 1 differ by 2 and 1."""

EVALUATION_INPUTS = Kind(
    "evaluation_inputs",
    "warning",
    "Prepare the data of evaluation as those of training: scaled by the same numbers, centred, in "
    "the same order of channels and features",
)


def evaluation_inputs(evidence: Evidence) -> Iterator[Finding]:
    """The first input that evaluation scales or centres otherwise, where its loss is far above."""
    given, evaluations = evidence.inputs, evidence.logged.losses_of_evaluation
    above = [one for one in evaluations if is_far_above(one, evidence)]
    for name, evaluated in given.evaluated.items() if above else ():
        trained, loss = given.trained.get(name, ()), above[0]
        if min(len(trained), len(evaluated)) >= _FEW and _differ(trained, evaluated):
            text = (
                f"the input {name!r} of the model has {_shown(evaluated)} in evaluation, and "
                f"{_shown(trained)} in training"
            )
            expected = f"a deviation near {_middle(trained).deviation:.3g}"
            others = {"module": "", "value": _middle(evaluated).deviation}
            yield EVALUATION_INPUTS.at(loss, 0, text, expected, **others)
            return


def _differ(trained: Sequence[Distribution], evaluated: Sequence[Distribution]) -> bool:
    """True if each forward of evaluation is beyond all of training, on one side."""
    low, high = (f(one.deviation for one in trained) for f in (min, max))
    sizes = [one.deviation for one in evaluated]
    if min(sizes) > _TIMES * high or _TIMES * max(sizes) < low:
        return True
    before, after = (f(one.mean for one in trained) for f in (min, max))
    means, shift = [one.mean for one in evaluated], _SHIFT * max(high, *sizes)
    return min(means) > after + shift or max(means) < before - shift


def _middle(every: Sequence[Distribution]) -> Distribution:
    return Distribution(median([x.mean for x in every]), median([x.deviation for x in every]))


def _shown(every: Sequence[Distribution]) -> str:
    middle = _middle(every)
    return f"a mean of {middle.mean:.3g} and a deviation of {middle.deviation:.3g}"
