"""The quantities that come with taiyi_fx; importing this declares them all."""

from taiyi_fx.quantities.stock import (
    activations,
    activity,
    attention,
    batchnorm,
    gradients,
    health,
    images,
    loss,
    noise,
    parameters,
    raw,
    spectra,
    weights,
)

__all__ = [
    "activations",
    "activity",
    "attention",
    "batchnorm",
    "gradients",
    "health",
    "images",
    "loss",
    "noise",
    "parameters",
    "raw",
    "spectra",
    "weights",
]
