"""Modules whose outputs share no memory with their inputs, which they leave alone."""

from __future__ import annotations

import functools

from torch import nn

_FRESH = (
    nn.Linear,
    nn.Bilinear,
    nn.modules.conv._ConvNd,
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.Embedding,
    nn.RNNBase,
    nn.MultiheadAttention,
)


def is_fresh(module: nn.Module) -> bool:
    """Whether what a module returns was made by it, and is known to nobody else.

    Only torch's own classes are taken for this, not what others derive from them.
    """
    return type(module) in _classes(_FRESH)


def is_torchs(module: nn.Module) -> bool:
    """Whether a module is of one of torch's own classes."""
    return type(module) in _classes((nn.Module,))


@functools.cache
def _classes(bases: tuple[type, ...]) -> frozenset[type]:
    known = [c for c in vars(nn).values() if isinstance(c, type)]
    return frozenset(c for c in known if issubclass(c, bases))
