"""The rule that gives a weight's gradient from a module's input and its output's gradient."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules import conv, instancenorm

from taiyi_fx.passes.structure import is_computed, tensor_named
from taiyi_fx.quantities.known_layers import known_layer
from taiyi_fx.reductions.weight_gradients import (
    Convolution,
    Dense,
    Lookup,
    Normalization,
    WeightGradient,
)

_SUPPORTED = "Linear, Conv, Embedding and norms of single samples, with torch's own forward"


def weight_gradient_of(module: nn.Module) -> WeightGradient | str:
    """A module's rule, or the reason why there is none."""
    known = known_layer(module)
    if known is not None:
        return known
    kind = next((c for c in type(module).__mro__ if c.__module__.startswith("torch.nn")), None)
    if kind is None or type(module).forward is not kind.forward:
        return f"is not a layer whose gradient is known sample by sample ({_SUPPORTED})"
    if not is_computed(module, "weight") and tensor_named(module, "weight") is None:
        return "has no weight"
    rule = _rule(module)
    return rule if rule is not None else f"has no gradient sample by sample; {_SUPPORTED} have"


def _rule(module: nn.Module) -> WeightGradient | str | None:
    if isinstance(module, nn.Linear):
        return Dense()
    if isinstance(module, conv._ConvNd):
        return _convolution(module)
    if isinstance(module, nn.Embedding):
        if module.scale_grad_by_freq:
            return "scales its gradient by the frequency of words in the batch"
        return Lookup(module.num_embeddings, module.padding_idx)
    return _normalization(module)


def _convolution(module: Any) -> Convolution:  # an untyped base class of torch's
    is_plain = module.padding_mode == "zeros"
    padding = module._reversed_padding_repeated_twice
    return Convolution(
        kernel=tuple(module.kernel_size),
        stride=tuple(module.stride),
        dilation=tuple(module.dilation),
        groups=module.groups,
        padding=tuple(padding),
        padding_mode="constant" if is_plain else module.padding_mode,
        transposed=module.transposed,
    )


_INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)


def _normalization(module: nn.Module) -> Normalization | None:
    if isinstance(module, nn.LayerNorm):
        return Normalization("layer", module.eps, tuple(module.normalized_shape))
    if isinstance(module, nn.RMSNorm):
        return Normalization("rms", module.eps, tuple(module.normalized_shape))
    if isinstance(module, nn.GroupNorm):
        return Normalization("group", module.eps, groups=module.num_groups)
    if isinstance(module, instancenorm._InstanceNorm) and not module.track_running_stats:
        axes = {c: n for n, c in enumerate(_INSTANCE_NORMS, start=3)}
        kind = next((c for c in type(module).__mro__ if c in axes), None)
        return Normalization("instance", module.eps, axes=axes[kind]) if kind else None
    return None
