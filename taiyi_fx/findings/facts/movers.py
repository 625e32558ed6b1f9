"""The modules whose numbers left their usual size before a loss did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import since
from taiyi_fx.findings.facts.robust import log10, median, spread
from taiyi_fx.findings.facts.watched import Watched

_BEFORE = 8
"""Numbers before the loss's step in which those that lead to it move."""
_SOON = 100
"""Steps before the loss's beyond which a move leads to something else, if to anything."""
_USUAL = 16
"""Numbers before these that say what is usual; with fewer nobody knows."""
_SIGMAS = 6.0
_LEAST = 0.05
"""The least deviation of logarithms: sizes that hardly move at all are no yardstick."""
_SHOWN = 3
_OTHERS = ("LearningRate", "LossSpike")
"""What is set, and moves by no other number, as `raised_rate` says; and what is the loss itself."""


class _Move(NamedTuple):
    step: int
    distance: float
    series: Watched


def moved_first(evidence: Evidence, step: int) -> str:
    """The ending of a sentence on a loss: what moved before it, or nothing."""
    moves = sorted(_moves(evidence, step), key=lambda move: (move.step, -move.distance))
    first: dict[str, _Move] = {}
    for move in moves:
        first.setdefault(move.series.module, move)
    named = [f"{m.series.title} (step {m.step})" for m in first.values()]
    return f"; {', '.join(named[:_SHOWN])} moved first" if named else ""


def _moves(evidence: Evidence, step: int) -> Iterator[_Move]:
    for one in evidence.series:
        is_count = one.health in ("counts_non_finite", "share_of_trouble")
        is_own = one.quantity.startswith(_OTHERS)
        if not one.direction or is_count or is_own:
            continue
        until = int(np.searchsorted(one.steps, step, side="right"))
        sizes = log10(one.values[max(0, until - 128) : until])
        before, last = sizes[:-_BEFORE], sizes[-_BEFORE:]
        if len(before) < _USUAL or not np.isfinite(sizes).all():
            continue
        far = (last - median(before)) / max(spread(before), _LEAST)
        is_so = (far > _SIGMAS) & (one.steps[until - len(last) : until] > step - _SOON)
        if is_so[-1]:
            i = since(is_so)
            yield _Move(int(one.steps[until - len(last) + i]), float(far[i]), one)
