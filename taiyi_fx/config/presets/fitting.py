"""The preset that fits a model, by the classes and names of its modules."""

from __future__ import annotations

import re
from collections.abc import Callable

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from taiyi_fx.config.presets.preset import Preset
from taiyi_fx.config.presets.stock import PRESETS
from taiyi_fx.passes.module_tree import named_modules, named_parameters

_GENERATOR = re.compile(r"^(g|gen|generator|netg)$", re.IGNORECASE)
_DISCRIMINATOR = re.compile(r"^(d|disc|discriminator|netd|critic)$", re.IGNORECASE)
_ADAPTER = re.compile(r"lora_|(^|[._])adapters?([._]|$)", re.IGNORECASE)
_EXPERTS = re.compile(r"(^|[._])experts?([._]|$)", re.IGNORECASE)
_ATTENTION = re.compile(r"attention|attn", re.IGNORECASE)
_FEW = 2


def fitting(model: nn.Module) -> Preset:
    """The preset for a model; that of an MLP where nothing else fits."""
    modules = dict(named_modules(model))
    kind = next((kind for kind, is_one in _KINDS if is_one(modules)), "mlp")
    return PRESETS[kind]


Modules = dict[str, nn.Module]


def _is_gan(modules: Modules) -> bool:
    names = [name for name in modules if name.count(".") == 0]
    return any(map(_GENERATOR.match, names)) and any(map(_DISCRIMINATOR.match, names))


def _has_adapters(modules: Modules) -> bool:
    parameters = (name for name, _ in named_parameters(modules[""]))
    return any(map(_ADAPTER.search, modules)) or any(map(_ADAPTER.search, parameters))


def _has_experts(modules: Modules) -> bool:
    return any(map(_EXPERTS.search, modules))


def _is_recurrent(modules: Modules) -> bool:
    return _count(modules, nn.RNNBase, nn.RNNCellBase) > 0


def _has_attention(modules: Modules) -> bool:
    return any(_ATTENTION.search(type(module).__name__) for module in modules.values())


def _is_convolutional(modules: Modules) -> bool:
    return _count(modules, _ConvNd) > _FEW or _count(modules, _BatchNorm) > 0


def _is_of_norms(modules: Modules) -> bool:
    """True for blocks of linear and norm layers, whose attention is a function."""
    norms = sum(_is_row_norm(module) for module in modules.values())
    return norms > _FEW and _count(modules, nn.Linear) > norms


def _is_row_norm(module: nn.Module) -> bool:
    return isinstance(module, nn.LayerNorm) or type(module).__name__.endswith("RMSNorm")


def _count(modules: Modules, *classes: type[nn.Module]) -> int:
    return sum(isinstance(module, classes) for module in modules.values())


# The first that fits: a GAN may be of convolutions, and a transformer has adapters.
_KINDS: tuple[tuple[str, Callable[[Modules], bool]], ...] = (
    ("gan", _is_gan),
    ("adapters", _has_adapters),
    ("experts", _has_experts),
    ("recurrent", _is_recurrent),
    ("transformer", _has_attention),
    ("convolutional", _is_convolutional),
    ("transformer", _is_of_norms),
    ("convolutional", lambda modules: _count(modules, _ConvNd) > 0),
)
