"""Faults that were held out until they were measured; importing this registers all."""

from benchmarks.faults.opened import (
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
