"""Routers of mixtures of experts: the numbers that a module says of them."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from taiyi_fx.passes.structure import attribute_of

_EXPERTS = (
    "num_experts",
    "num_local_experts",
    "n_experts",
    "n_routed_experts",
    "num_routed_experts",
    "num_gates",
)
_CHOICES = ("top_k", "topk", "k", "num_experts_per_tok", "top_n", "experts_per_token")


def experts_of(module: nn.Module) -> int | None:
    """The number of experts that a module says it has."""
    return _told(module, _EXPERTS)


def choices_of(module: nn.Module) -> int | None:
    """The number of experts for each token, as far as a module says it."""
    return _told(module, _CHOICES)


def _told(module: nn.Module, names: Iterable[str]) -> int | None:
    found = (attribute_of(module, name) for name in names)
    return next((n for n in found if type(n) is int and n > 0), None)
