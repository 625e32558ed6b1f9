"""Faults that people asked about in public, each with the cause that was found.

Rules had seen none of them when they were measured; importing this registers all.
"""

from benchmarks.faults.opened.asked import (
    adapters,
    adversaries,
    axes,
    experts,
    feeding,
    generative,
    language,
    layers,
    losses,
    players,
    precision,
    recurrent,
    resuming,
    several,
    similar,
    stepping,
)

__all__ = [
    "adapters",
    "adversaries",
    "axes",
    "experts",
    "feeding",
    "generative",
    "language",
    "layers",
    "losses",
    "players",
    "precision",
    "recurrent",
    "resuming",
    "several",
    "similar",
    "stepping",
]
