"""Values that a narrower format does not hold: out of its range, or below its noise."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched, grouped, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_OVER = 1e-4
_UNDER = 0.5

OUT_OF_RANGE = Kind(
    "out_of_range",
    "warning",
    "Use bfloat16, whose range is that of float32, or keep this module in float32; of gradients, "
    "train with a scaler of losses",
)


def out_of_range(evidence: Evidence) -> Iterator[Finding]:
    """Shares of what a format cannot hold: some that is too large, or half too small."""
    for one in evidence.series:
        is_over = one.quantity.endswith("OverflowRate")
        if not is_over and not one.quantity.endswith("UnderflowRate"):
            continue
        value = median(one.last_half)
        if len(one.values) >= STEPS and value >= (_OVER if is_over else _UNDER):
            text = (
                f"{value:.2g} of what {one.quantity} of {one.module!r} counts is too "
                f"{'large' if is_over else 'small'} for the format"
            )
            yield OUT_OF_RANGE.at(one, 0, text, "near 0", value=value)


_FEW = 4
"""Sites below which there are none to compare with."""
_DECIBELS = 6.0
"""The distance from half of all that counts: a bit of precision, or twice the noise."""
_SHOWN = 8

KEEP_WIDER = Kind(
    "keep_wider",
    "note",
    "Keep these in bfloat16 where the others are in the narrower format",
)


def keep_wider(evidence: Evidence) -> Iterator[Finding]:
    """Sites whose features have far less signal beside a format's noise than those of others."""
    ends = (s for s in evidence.series if s.quantity.endswith(".typical"))
    known = (s for s in ends if "SQNR" in s.quantity and len(s.values) >= STEPS)
    for every in grouped(known, lambda s: s.quantity).values():
        yield from _of_quantity(every)


def _of_quantity(every: list[Watched]) -> Iterator[Finding]:
    # Of zeros there is no ratio, and where nothing is lost, as of gains of 1, no noise to compare.
    found = {s.module: median(s.last_half) for s in every}
    ratios = {module: ratio for module, ratio in found.items() if math.isfinite(ratio)}
    usual = median([*ratios.values()])
    low = [s for s in every if s.module in ratios and ratios[s.module] <= usual - _DECIBELS]
    low.sort(key=lambda s: ratios[s.module])
    if len(ratios) < _FEW or not low:
        return
    first = low[0]
    ranked = [f"{s.module!r} ({ratios[s.module]:.0f} dB)" for s in low[:_SHOWN]]
    more = f" and {len(low) - _SHOWN} more" if len(low) > _SHOWN else ""
    text = (
        f"{first.quantity}: half of all sites have {usual:.0f} dB or more, and in the order in "
        f"which they lose most, less have {', '.join(ranked)}{more}"
    )
    expected = f"{usual:.0f} dB"
    yield KEEP_WIDER.at(first, 0, text, expected, value=ratios[first.module])


_MASSIVE = 1000.0
"""Times the layer's median feature, as arXiv 2402.17762 has it of language models that are trained
to the end. In healthy trainings of some hundred steps the largest feature is up to 6 times it."""

MASSIVE_ACTIVATIONS = Kind(
    "massive_activations",
    "note",  # all large language models have them, and learn with them
    "Usual in large language models, and what a format of 8 bits or less does not hold beside the "
    "other features: keep these layers in bfloat16, ask for InputSQNR before you narrow them, and "
    "in float16 look at OutputAbsMax beside 65504",
)


def massive_activations(evidence: Evidence) -> Iterator[Finding]:
    """The layers with such features, the first of them named."""
    sizes = {
        s.module: (s, median(s.last_half))
        for s in evidence.of_quantity("OutlierFeatures.largest")
        if len(s.values) >= STEPS
    }
    massive = [(s, size) for s, size in sizes.values() if _MASSIVE <= size < np.inf]
    if massive:
        first, size = massive[0]
        i = int((first.values >= _MASSIVE).argmax())
        text = (
            f"since step {first.steps[i]} a feature of the output of "
            f"{names_of([s for s, _ in massive])} is {size:.3g} times the median feature"
        )
        yield MASSIVE_ACTIVATIONS.at(first, i, text, "tens at most", value=size)
