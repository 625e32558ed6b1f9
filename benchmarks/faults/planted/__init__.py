"""The faults, by what they are in; importing this registers all."""

from benchmarks.faults.planted import (
    data,
    forwards,
    functions,
    gradients,
    initialisation,
    layers,
    optimizer,
    weights,
)

__all__ = [
    "data",
    "forwards",
    "functions",
    "gradients",
    "initialisation",
    "layers",
    "optimizer",
    "weights",
]
