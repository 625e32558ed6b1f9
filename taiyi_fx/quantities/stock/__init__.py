"""The quantities that come with taiyi_fx; importing this declares them all."""

from taiyi_fx.quantities.stock import (
    activations,
    activity,
    agreement,
    attention,
    batchnorm,
    fingerprints,
    gradients,
    health,
    images,
    loss,
    noise,
    parameters,
    raw,
    spectra,
    weights,
    whole_model,
)

__all__ = [
    "activations",
    "activity",
    "agreement",
    "attention",
    "batchnorm",
    "fingerprints",
    "gradients",
    "health",
    "images",
    "loss",
    "noise",
    "parameters",
    "raw",
    "spectra",
    "weights",
    "whole_model",
]
