"""Moments of an optimizer whose format is too narrow for the squares of gradients."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.lasting import lasting, since
from taiyi_fx.findings.watched import Watched, at_common_steps

LOST_MOMENT = Kind(
    "lost_moment",
    "warning",
    "Keep parameters in float32 and compute in float16 (torch.autocast with a GradScaler), or take "
    "bfloat16: with nothing to divide by, the step is lr / eps times the mean gradient",
)


def lost_moments(evidence: Evidence) -> Iterator[Finding]:
    """Parameters with a gradient whose second moment stays exactly 0.

    Adam adds a thousandth of the squared gradient at each step, which float16 rounds to nothing
    where gradients are below 0.005. A mean of squares of which one is above zero is above zero in
    any format that holds it, so that there is no bound to choose.
    """
    gradients = {(s.module, "weight"): s for s in evidence.of_quantity("WeightGradNorm")}
    every = evidence.of_each("ParameterGradNorm")
    gradients |= {(s.module, s.quantity.partition(".")[2]): s for s in every}
    for one in evidence.of_each("SecondMoment"):
        name = one.quantity.partition(".")[2]
        gradient = gradients.get((one.module, name))
        if gradient is not None:
            yield from _of_parameter(name, *at_common_steps([one, gradient]))


def _of_parameter(name: str, moment: Watched, gradient: Watched) -> Iterator[Finding]:
    is_lost = (moment.values == 0) & (gradient.values > 0)
    if lasting(is_lost):
        i = since(is_lost)
        text = (
            f"step {moment.steps[i]}: the optimizer's second moment of {name!r} of "
            f"{moment.module!r} is exactly 0 from here on, though its gradient is not "
            f"({gradient.values[-1]:.2g}): the squares are too small for the format"
        )
        yield LOST_MOMENT.at(moment, i, text, "above 0")
