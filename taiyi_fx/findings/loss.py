"""The loss itself: it rises and stays, or never falls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.evidence import Evidence, Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.robust import Numbers, smooth, spread

_FEW = 8
"""Numbers below which a loss has no course yet."""
_MANY = 50
_RISE = 3.0
_FLAT = 0.01


def divergence(evidence: Evidence) -> Iterator[Finding]:
    """A loss that rose far above where it began, and stays there."""
    for loss in evidence.losses:
        values = smooth(loss.values)
        if len(values) < _FEW or (values <= 0).any():
            continue
        start = float(np.median(loss.values[:3]))
        low = float(np.minimum.accumulate(values)[-1])
        last = values[-max(3, len(values) // 10) :]
        bound = _RISE * max(start, low)
        if last.min() <= bound or last.min() - start < 6 * _noise(loss.values):
            continue
        first = int(np.flatnonzero(values <= bound)[-1]) + 1
        yield Finding(
            kind="divergence",
            severity="alert",
            module="",
            quantity=loss.quantity,
            step=int(loss.steps[first]),
            value=float(loss.values[first]),
            expected=f"below {bound:.3g}",
            text=f"step {loss.steps[first]}: {loss.quantity!r} rises from {start:.3g} to "
            f"{float(last.min()):.3g} and stays there",
            advice="The learning rate is too large for this model, or a gradient has the wrong "
            "sign: try a tenth of it, warm it up, or clip gradients",
        )


def plateau(evidence: Evidence) -> Iterator[Finding]:
    """A loss that stays where it began."""
    for loss in evidence.losses:
        if len(loss.values) < _MANY or not np.isfinite(loss.values).all() or _is_of_a_game(loss):
            continue
        n = len(loss.values) // 5
        start, last = float(np.median(loss.values[:n])), float(np.median(loss.values[-n:]))
        noise = spread(loss.values) / np.sqrt(n)
        if start - last > max(_FLAT * abs(start), 2 * noise) or last > 1.5 * start:
            continue
        yield Finding(
            kind="plateau",
            severity="note",  # a hard problem looks the same
            module="",
            quantity=loss.quantity,
            step=int(loss.steps[0]),
            value=last,
            expected=f"below {start:.3g}",
            text=f"{loss.quantity!r} does not fall: it is {last:.3g} after {len(loss.values)} "
            f"steps, and was {start:.3g} in the beginning",
            advice="The learning rate may be far too small, parameters may be missing from the "
            "optimizer, or inputs and targets may not belong together",
        )


def _noise(values: Numbers) -> float:
    return spread(np.diff(values)) / np.sqrt(2)


def _is_of_a_game(loss: Watched) -> bool:
    """True for one of several players, as of a GAN, whose losses need not fall."""
    return loss.quantity.lower() != "loss"
