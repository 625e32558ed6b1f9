"""The axis of a module's tensors that holds the features."""

from __future__ import annotations

from torch import nn
from torch.nn.modules import batchnorm, conv, instancenorm

from taiyi_fx.reductions import FeatureAxis

# Counted from the end where the class fixes the number of axes: right without a batch axis too.
_AXES: tuple[tuple[tuple[type[nn.Module], ...], FeatureAxis], ...] = (
    ((nn.Conv1d, nn.ConvTranspose1d, nn.InstanceNorm1d), -2),
    ((nn.Conv2d, nn.ConvTranspose2d, nn.InstanceNorm2d, nn.BatchNorm2d), -3),
    ((nn.Conv3d, nn.ConvTranspose3d, nn.InstanceNorm3d, nn.BatchNorm3d), -4),
    ((batchnorm._BatchNorm, instancenorm._InstanceNorm, nn.GroupNorm, conv._ConvNd), 1),
    ((nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Embedding, nn.MultiheadAttention), -1),
)


def feature_axis_of(module: nn.Module) -> FeatureAxis:
    """The axis of a module's features.

    Channels for convolutions and batch, group and instance norms; the last axis for linear
    layers, layer norms, embeddings and attention; ``"auto"``, by the tensor's rank, for others.
    """
    for classes, axis in _AXES:
        if isinstance(module, classes):
            return axis
    return "auto"
