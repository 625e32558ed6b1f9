"""Kinds of modules, by their classes and places: predicates of a name and a module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy

from taiyi_fx.passes.module_tree import children_of, named_children, named_parameters
from taiyi_fx.quantities.known_layers import is_known_linear
from taiyi_fx.quantities.routers import choices_of, experts_of

_UNCHANGING = (nn.Identity, nn.Flatten, nn.Unflatten)
_OF_INDICES = (nn.Embedding, nn.EmbeddingBag)
_RECTIFIERS = (nn.ReLU, nn.ReLU6)
_PARAMETRIZATIONS = "parametrizations"
_ROUTES = re.compile(r"rout(er|ing)|gat(e|ing)", re.IGNORECASE)
_SMALL = 2**16
"""Elements of a weight, whose gradient is made once more in little time."""


def is_leaf(name: str, module: nn.Module) -> bool:
    """True for a module without parts that computes something."""
    if isinstance(module, _UNCHANGING) or _is_of_parametrization(name):
        return False
    return all(part == _PARAMETRIZATIONS for part, _ in named_children(module))


def has_weight(name: str, module: nn.Module) -> bool:
    """True for a module with a weight of its own."""
    own = dict(named_parameters(module, recurse=False))
    return "weight" in own or _PARAMETRIZATIONS in dict(named_children(module))


def trains_weight(name: str, module: nn.Module) -> bool:
    """True for a module with a weight of its own that is not frozen."""
    own = dict(named_parameters(module, recurse=False))
    return "weight" in own and own["weight"].requires_grad


def trains_half(name: str, module: nn.Module) -> bool:
    """True for a module with a weight of its own in half precision that is not frozen."""
    return _format_of_trained(module) in (torch.bfloat16, torch.float16)


def trains_float16(name: str, module: nn.Module) -> bool:
    """True for such a module in float16, which holds few squares of gradients."""
    return _format_of_trained(module) is torch.float16


def _format_of_trained(module: nn.Module) -> torch.dtype | None:
    weight = dict(named_parameters(module, recurse=False)).get("weight")
    return weight.dtype if weight is not None and weight.requires_grad else None


def has_other_parameters(name: str, module: nn.Module) -> bool:
    """True for a module with parameters of its own, none of which is its weight."""
    own = {part for part, _ in named_parameters(module, recurse=False)}
    return bool(own) and not has_weight(name, module) and not _is_of_parametrization(name)


def takes_numbers(name: str, module: nn.Module) -> bool:
    """True for a leaf with parameters whose input is a tensor of numbers, not of indices."""
    is_own = has_weight(name, module) or has_other_parameters(name, module)
    return is_own and is_leaf(name, module) and not isinstance(module, _OF_INDICES)


def is_embedding(name: str, module: nn.Module) -> bool:
    """True for an embedding of torch, which is given indices."""
    return type(module) is nn.Embedding


def is_block(name: str, module: nn.Module) -> bool:
    """True for a module of several parts that is numbered, as blocks are, and lies in no other."""
    *around, last = name.split(".")
    is_outermost = last.isdecimal() and not any(part.isdecimal() for part in around)
    return is_outermost and any(part != _PARAMETRIZATIONS for part, _ in named_children(module))


def is_rectifier(name: str, module: nn.Module) -> bool:
    """True for a ReLU."""
    return isinstance(module, _RECTIFIERS)


def is_batch_norm(name: str, module: nn.Module) -> bool:
    """True for a BatchNorm with running statistics."""
    return isinstance(module, _BatchNorm) and module.running_mean is not None


def is_router(name: str, module: nn.Module) -> bool:
    """True for a module of a class named after a router or a gate that says its experts."""
    return bool(_ROUTES.search(type(module).__name__)) and experts_of(module) is not None


def is_linear(name: str, module: nn.Module) -> bool:
    """True for a linear layer of torch's own class, whose output says nothing but its numbers."""
    return type(module) is nn.Linear


def routing_of(name: str, modules: Mapping[str, nn.Module]) -> Mapping[str, Any] | None:
    """The number of experts for each token, of a linear layer that routes; else None.

    It is one of as many outputs as the module around it has experts, which says that number, too.
    """
    around, linear = modules[name.rpartition(".")[0]], modules[name]
    k = choices_of(around)
    listed = [len(part) for part in children_of(around) if isinstance(part, nn.ModuleList)]
    many = [n for n in (experts_of(around), *listed) if n is not None and n > 1]
    if k is None or not name or getattr(linear, "out_features", 0) not in many:
        return None
    return {"k": k}


def is_sequential(name: str, module: nn.Module) -> bool:
    """True for a layer of torch that takes time and samples on the first two axes."""
    return isinstance(module, (nn.RNNBase, nn.MultiheadAttention))


def is_recurrent(name: str, module: nn.Module) -> bool:
    """True for a recurrent layer of torch."""
    return isinstance(module, nn.RNNBase)


def samples_of(name: str, modules: Mapping[str, nn.Module]) -> Mapping[str, Any]:
    """The axis of the samples, of such a layer."""
    return {"axis": 0 if getattr(modules[name], "batch_first", False) else 1}


def pads(name: str, module: nn.Module) -> bool:
    """True for an embedding that says which of its indices is padding."""
    return isinstance(module, nn.Embedding) and module.padding_idx is not None


def padding_of(name: str, modules: Mapping[str, nn.Module]) -> Mapping[str, Any]:
    """The index that is padding, of such an embedding."""
    return {"index": getattr(modules[name], "padding_idx", None)}


def is_any(name: str, module: nn.Module) -> bool:
    """True: where something is asked of the functions that a forward calls, for all modules."""
    return True


def is_model(name: str, module: nn.Module) -> bool:
    """True for the model itself."""
    return not name


def _is_of_parametrization(name: str) -> bool:
    return _PARAMETRIZATIONS in name.split(".")


def is_small_matrix(name: str, module: nn.Module) -> bool:
    """True for a linear layer or a convolution whose weight is trained and not large."""
    weight = dict(named_parameters(module, recurse=False)).get("weight")
    if weight is None or is_lazy(weight):
        return False
    is_one = isinstance(module, (nn.Linear, _ConvNd)) or is_known_linear(module)
    return is_one and weight.requires_grad and weight.numel() <= _SMALL
