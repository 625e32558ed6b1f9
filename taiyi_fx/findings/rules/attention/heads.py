"""Heads of an attention that add nothing, or far more than all others of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import lasting, since
from taiyi_fx.findings.facts.watched import Watched, at_common_steps
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_NOTHING = 1e-4
"""Of the size of all heads: a sum with the others in bfloat16 does not show it. In healthy
trainings the smallest head has a third; those of trained models that rest on the first token, whose
value is small (arXiv 2410.13835), have far less, and are not to be accused."""
_FAR = 30.0
"""Times the median head; in healthy trainings the largest is up to 1.6 of it."""

DEAD_HEAD = Kind(
    "dead_head",
    "warning",
    "HeadNorm with reduce='head' says which: look at its rows of the values' weight, and at masks "
    "of heads. Nothing of it reaches the loss, and so it learns nothing",
)
ODD_HEAD = Kind(
    "odd_head",
    "warning",
    "HeadNorm with reduce='head' says which: look at how its rows of the values' weight are "
    "initialised or loaded, and in which order heads are split",
)


def odd_heads(evidence: Evidence) -> Iterator[Finding]:
    """Attentions with a head whose output is nothing beside that of all, or far beyond others'."""
    parts = [evidence.by_module(f"HeadNorm.{part}") for part in ("smallest", "median", "largest")]
    for one in evidence.of_quantity("HeadNorm"):
        if all(one.module in part for part in parts):
            series = at_common_steps([one, *(part[one.module] for part in parts)])
            yield from _of_attention(*series)


def _of_attention(
    every: Watched, smallest: Watched, usual: Watched, largest: Watched
) -> Iterator[Finding]:
    is_dead = (smallest.values <= _NOTHING * every.values) & (every.values > 0)
    if lasting(is_dead):
        i = since(is_dead)
        many = usual.values[-1] <= _NOTHING * every.values[-1]
        text = (
            f"step {smallest.steps[i]}: {'half of the heads' if many else 'a head'} of "
            f"{smallest.module!r} {'return' if many else 'returns'} next to nothing from here on, "
            f"{smallest.values[-1]:.2g} where all have {every.values[-1]:.3g}"
        )
        yield DEAD_HEAD.at(smallest, i, text, "near that of the others")
    is_far = (largest.values >= _FAR * usual.values) & (usual.values > 0)
    if lasting(is_far):
        i = since(is_far)
        factor = float(np.median(largest.values[i:] / usual.values[i:]))
        text = (
            f"from step {largest.steps[i]} on a head of {largest.module!r} returns "
            f"{factor:.3g} times what half of the others do"
        )
        yield ODD_HEAD.at(largest, i, text, f"near {usual.values[i]:.3g}")
