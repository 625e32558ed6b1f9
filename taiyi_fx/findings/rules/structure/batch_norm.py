"""BatchNorm whose running statistics do not follow the batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import ends, since
from taiyi_fx.findings.facts.of_layers import LayerSettings
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_MANY = 40
_FAR = 0.3
_SHARE = 0.45
"""Of the distance in the beginning, which running statistics halve within a few steps."""
_DEVIATIONS = 1.0
"""Between the running mean and the batches': a momentum of 0.1 leaves a tenth."""
_SLOW, _LEFT = 0.005, 0.1
"""A momentum by which no training is long enough, and what may be left of the beginning."""
_LATEST, _STAYS = 8, 0.8
"""The latest numbers, and their share of those of the last half: of less, it still falls."""

STALE = Kind(
    "stale_statistics",
    "warning",
    "Look at its momentum, whether it is in eval mode while it trains, and whether batches are too "
    "small or too different for running statistics",
)


BROKEN = Kind(
    "stale_statistics",
    "alert",
    "Look for a batch that was not finite at this step, and for code that writes into buffers; "
    "running statistics stay so until reset_running_stats()",
)


def stale_statistics(evidence: Evidence) -> Iterator[Finding]:
    """Modules whose running statistics do not come near those of the batches.

    A variance that stays about as far as it began, or a mean that stays a deviation away; or either
    is not finite any more, though it was. Those of a frozen module in evaluation mode may be of
    other data.
    """
    yield from _not_finite(evidence)
    for one in evidence.of_quantity("MeanTID"):
        if _settings(one, evidence).is_at_rest:
            continue
        value = median(one.last_half)
        if len(one.values) >= _MANY and value >= _DEVIATIONS and _stays(one, value):
            text = (
                f"the running mean of {one.module!r} stays {value:.3g} deviations away from those "
                "of the batches: evaluation computes with other numbers than training"
            )
            yield STALE.at(one, 0, text, "near 0.1", value=value)
            return
    for one in evidence.of_quantity("VarTID"):
        value, first = median(one.last_half), float(one.values[0])
        if len(one.values) < _MANY or not value >= max(_FAR, _SHARE * first):  # nor where NaN
            continue
        if _settings(one, evidence).is_at_rest:
            continue
        if not _stays(one, value) or _is_on_its_way(one, evidence):
            continue
        text = (
            f"the running deviations of {one.module!r} stay {value:.0%} away from those of the "
            "batches: evaluation computes with other numbers than training"
        )
        yield STALE.at(one, 0, text, f"falling from {first:.3g} to near 0.1", value=value)


def _settings(one: Watched, evidence: Evidence) -> LayerSettings:
    return evidence.model.settings.get(one.name, LayerSettings())


def _is_on_its_way(one: Watched, evidence: Evidence) -> bool:
    """True for a variance that began at 1 and has not come down to a small one yet.

    What is left of the beginning is a power of what each batch leaves of it: beside a variance of
    0.01 that is much for a long time, as long as it is more than that.
    """
    momentum = _settings(one, evidence).momentum
    given = evidence.by_module("InputRMS").get(one.module)
    if momentum < _SLOW or momentum >= 1 or given is None or not evidence.is_from_the_start:
        return False
    left = (1 - momentum) ** float(one.steps[-1] + 1)
    return left > _LEFT * min(1.0, median(given.last_half) ** 2)


def _not_finite(evidence: Evidence) -> Iterator[Finding]:
    """The first whose running statistics are not finite, which no loss of a training shows."""
    every = [s for s in evidence.of_quantity("MeanTID", "VarTID") if np.isfinite(s.values[0])]
    bad = [s for s in every if ends(~np.isfinite(s.values))]
    if bad:
        first = min(bad, key=lambda s: since(~np.isfinite(s.values)))
        i = since(~np.isfinite(first.values))
        text = (
            f"step {first.steps[i]}: the running statistics of {first.module!r} are NaN or Inf "
            "from here on: no loss of the training shows it, and evaluation returns NaN"
        )
        yield BROKEN.at(first, i, text, "finite")


def _stays(one: Watched, value: float) -> bool:
    """True if the latest numbers are not far below those of the last half."""
    return median(one.values[-_LATEST:]) >= _STAYS * value
