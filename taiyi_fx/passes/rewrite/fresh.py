"""Modules that do not change their inputs, and whose outputs share no memory with them."""

from __future__ import annotations

import operator
from collections.abc import Mapping

from torch import fx, nn

from taiyi_fx.passes.capture.modules import is_torchs
from taiyi_fx.passes.capture.unpacking import items_of
from taiyi_fx.passes.override import entry_of
from taiyi_fx.passes.structure import attribute_of

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
    """True if a module's output is new memory that nothing else refers to.

    Only torch's own classes count, with their original forward; derived classes do not.
    """
    return entry_of(module) is None and is_torchs(module) and isinstance(module, _FRESH)


def is_dropout(module: nn.Module) -> bool:
    """True if a module's output is a new tensor, or its very input where nothing is dropped.

    Only torch's own classes count, with their original forward; derived classes do not.
    """
    is_original = entry_of(module) is None and is_torchs(module)
    return is_original and isinstance(module, nn.modules.dropout._DropoutNd)


def makes_new(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """True if a node's value is a new tensor, not another name of an earlier one."""
    if node.op != "call_module":
        return node.op == "call_function" and node.target in _ARITHMETIC
    module = modules[str(node.target)]
    is_activation = type(module).__module__ == nn.ReLU.__module__ and not module._modules
    if is_activation and not attribute_of(module, "inplace"):
        return entry_of(module) is None and is_torchs(module)
    return is_fresh(module)


def is_torchs_call(node: fx.Node) -> bool:
    """True if a node is a method of a tensor, or an operation of Python's or torch's own."""
    if node.op == "call_method":
        return "hook" not in str(node.target)
    owner = getattr(node.target, "__module__", None) or ""
    is_builtin = type(node.target).__name__.startswith("builtin")
    return node.op == "call_function" and (
        is_builtin
        or node.target is items_of
        or owner in ("_operator", "torch", "torch.nn.functional")
    )
