"""The tensors that went through a module, captured without the library, in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

Name = Literal["x", "y", "g_x", "g_y"]

_CHANNELS = (
    nn.modules.conv._ConvNd,
    nn.modules.batchnorm._BatchNorm,
    nn.modules.instancenorm._InstanceNorm,
    nn.GroupNorm,
)
_LAST = (nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Embedding, nn.MultiheadAttention)


@dataclass(frozen=True, eq=False)
class Seen:
    """One step of one module, for a reference to compute from. All tensors are float64.

    Micro-batches are joined along axis 0. Gradients are those of the true loss.

    Attributes:
        x: The input; complex numbers by their absolute value.
        y: The output.
        g_x: The loss's gradient with respect to the input, or None.
        g_y: The loss's gradient with respect to the output, or None.
        module: The module, plain, as training left it.
        options: Those that the quantity was asked with.
        parameters: By name, at the end of the step.
        gradients: Those of the parameters that have one, by name.
        buffers: By name, at the end of the step.
        dtypes: The types that ``x``, ``y``, ... and the parameters had.
        grad_scale: The factor that gradients had when they flowed.
        step: The step's number.
        before: The previous step at which the quantity was due, or None.
        window: All steps since the quantity was last due, this one last.
        sizes: The length of each micro-batch along axis 0; empty if they are not known.
    """

    x: Tensor
    y: Tensor
    g_x: Tensor | None
    g_y: Tensor | None
    module: nn.Module
    options: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Tensor] = field(default_factory=dict)
    gradients: Mapping[str, Tensor] = field(default_factory=dict)
    buffers: Mapping[str, Tensor] = field(default_factory=dict)
    dtypes: Mapping[str, torch.dtype] = field(default_factory=dict)
    grad_scale: float = 1.0
    step: int = 0
    before: Seen | None = None
    window: tuple[Seen, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def weight(self) -> Tensor | None:
        """The parameter of that name, if there is one."""
        return self.parameters.get("weight")

    @property
    def weight_grad(self) -> Tensor | None:
        """The gradient of ``weight``, if it has one."""
        return self.gradients.get("weight")

    def rows(self, name: Name) -> Tensor:
        """A tensor as rows by features, N x C: the feature axis moved last, others flattened.

        The feature axis is axis 1 for convolutions and batch, group and instance norms, the last
        for linear layers, layer norms, embeddings and attention; for other modules axis 1 of four
        axes or more, else the last. The option ``feature_axis`` says otherwise.

        Raises:
            ValueError: There is no such tensor.
        """
        x = getattr(self, name, None)
        if x is None:
            raise ValueError(f"there is no {name}: no gradient was asked for")
        if x.ndim == 0:
            return x.reshape(1, 1)
        axis = self.options.get("feature_axis", "auto")
        axis = _axis(self.module, x) if axis == "auto" else axis
        return torch.stack([row.reshape(-1) for row in x.unbind(axis)], dim=1)

    def eps(self, name: str) -> float:
        """The precision of the type that a tensor has to be reduced in.

        That of float64 for float64, of float32 for everything else.
        """
        wide = self.dtypes.get(name) == torch.float64
        return torch.finfo(torch.float64 if wide else torch.float32).eps


def _axis(module: nn.Module, x: Tensor) -> int:
    if isinstance(module, _CHANNELS):
        return 1
    if isinstance(module, _LAST):
        return -1
    return 1 if x.ndim >= 4 else -1
