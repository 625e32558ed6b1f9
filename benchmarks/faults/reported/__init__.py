"""Faults as people report them, written by those who set thresholds: none is held out."""

from __future__ import annotations

from benchmarks.faults.reported import (
    apart,
    attention,
    axes,
    experts,
    forwards,
    losses,
    meaning,
    more,
    optimizers,
    settings,
    starts,
    writes,
)

__all__ = [
    "apart",
    "attention",
    "axes",
    "experts",
    "forwards",
    "losses",
    "meaning",
    "more",
    "optimizers",
    "settings",
    "starts",
    "writes",
]
