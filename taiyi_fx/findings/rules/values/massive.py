"""Features so much larger than the others of a layer that formats of few bits lose the rest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

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
