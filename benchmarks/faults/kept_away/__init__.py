"""Faults that nobody who makes rules may read; importing this registers all."""

from benchmarks.faults.kept_away import (
    attention,
    data,
    experts,
    forwards,
    gradients,
    losses,
    norms,
    optimizers,
    players,
    precision,
    recurrent,
    starts,
    writes,
)

__all__ = [
    "attention",
    "data",
    "experts",
    "forwards",
    "gradients",
    "losses",
    "norms",
    "optimizers",
    "players",
    "precision",
    "recurrent",
    "starts",
    "writes",
]
