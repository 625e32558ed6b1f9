"""Faults that people asked about in public, each with the cause that was found.

Nobody who makes rules may read them; importing this registers all.
"""

from benchmarks.faults.kept_away import (
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
