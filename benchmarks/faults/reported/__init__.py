"""Faults as people report them, by what they are in; importing this registers all."""

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
