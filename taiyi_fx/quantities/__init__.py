"""The quantities that come with taiyi_fx; importing this declares them all."""

from taiyi_fx.quantities import activations, batchnorm, gradients, raw, spectra, weights

__all__ = ["activations", "batchnorm", "gradients", "raw", "spectra", "weights"]
