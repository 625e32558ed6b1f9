"""Modules whose outputs share no memory with their inputs, which they leave alone."""

from __future__ import annotations

import operator
from collections.abc import Mapping

from torch import fx, nn

from taiyi_fx.passes.capture.modules import is_torchs
from taiyi_fx.passes.capture.unpacking import items_of
from taiyi_fx.passes.override import entry_of

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

_ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul)


def is_fresh(module: nn.Module) -> bool:
    """True if what a module returns was made by it, and is known to nobody else.

    Only torch's own classes are taken for this, with the forward they came with, not what others
    derive from them.
    """
    return entry_of(module) is None and is_torchs(module) and isinstance(module, _FRESH)


def makes_new(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """True if a node's value is a new tensor, of which nothing before it is another name."""
    if node.op != "call_module":
        return node.op == "call_function" and node.target in _ARITHMETIC
    module = modules[str(node.target)]
    is_activation = type(module).__module__ == nn.ReLU.__module__ and not module._modules
    if is_activation and not getattr(module, "inplace", False):
        return entry_of(module) is None and is_torchs(module)
    return is_fresh(module)


def is_torchs_call(node: fx.Node) -> bool:
    """True if a node is a method of a tensor, or Python's or torch's own operation."""
    if node.op == "call_method":
        return "hook" not in str(node.target)
    owner = getattr(node.target, "__module__", None) or ""
    is_builtin = type(node.target).__name__.startswith("builtin")
    return node.op == "call_function" and (
        is_builtin
        or node.target is items_of
        or owner in ("_operator", "torch", "torch.nn.functional")
    )
