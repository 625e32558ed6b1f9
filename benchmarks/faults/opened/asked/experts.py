"""Faults of mixtures of experts: routers without gradient, and losses that balance too much."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.models import Router
from benchmarks.faults.training import Training, balanced, cross_entropy

ROUTER, MIXTURE = "*router*", "layers.*.mlp"
KINDS = "router|expert|balance|load|gate|collapse|loss"


def _routers(model: nn.Module) -> list[Router]:
    return [module for module in model.modules() if isinstance(module, Router)]


@fault("moe", ROUTER, kinds="gradient|update|zero|softmax|frozen|" + KINDS)
def softmax_over_one_expert(t: Training) -> None:
    """Takes the softmax over the logits that are chosen, of which there is one."""

    def forward(router: Any, _: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = router.linear(x)
        best, chosen = logits.topk(1, dim=-1)
        return logits, best.softmax(-1), chosen

    for router in _routers(t.model):
        router.top_k = 1
        change_class(router, forward)
    t.backward = cross_entropy


@fault("moe", ROUTER, MIXTURE, WHOLE, kinds="detach|" + KINDS)
def balance_that_is_only_reported(t: Training) -> None:
    """Computes the loss that balances experts, and drops what it returns."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        return loss

    t.backward = backward
    t.steps = 150


@fault("moe", ROUTER, MIXTURE, WHOLE, kinds="uniform|entropy|weight|scale|" + KINDS)
def balance_times_the_number_of_tokens(t: Training) -> None:
    """Multiplies the loss that balances experts by the number of tokens."""
    t.backward = partial(balanced, weight=0.01 * 256)


@fault("moe", ROUTER, WHOLE, kinds="nan|finite|inf|deviation|" + KINDS)
def deviation_of_equal_loads(t: Training) -> None:
    """Balances by the deviation of loads, which has no slope where routers begin with zeros."""
    seen: list[Tensor] = []

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        spread = torch.stack([shares.mean((0, 1)).std() for shares in seen])
        (loss + 0.01 * spread.square().sum()).backward()
        seen.clear()
        return loss

    for router in _routers(t.model):
        nn.init.zeros_(router.linear.weight)
        change_class(router, _keeping(seen))
    t.backward = backward


def _keeping(seen: list[Tensor]) -> Any:
    """The forward of a router that keeps the shares of experts."""

    def forward(router: Any, old: Any, x: Tensor) -> Any:
        found = old(x)
        seen.append(found[0].softmax(-1))
        return found

    return forward
