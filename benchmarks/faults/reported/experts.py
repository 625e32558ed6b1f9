"""Faults of routers and of experts."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.faults.changes import change_class, give_group, rate
from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training, balanced

_ROUTER = ("{router}*", "{mixture}")


def _route(t: Training, change: Any) -> None:
    """Has a function change the logits of a router, of which it then chooses."""
    change_class(t.module("router").linear, lambda self, old, x: change(old(x)))


@fault("moe", *_ROUTER)
def router_of_two_experts(t: Training) -> None:
    """A bias by which two experts get all tokens from the start."""
    bias = torch.tensor([30.0, 30.0] + 6 * [0.0])
    _route(t, lambda logits: logits + bias)


@fault("moe", *_ROUTER)
def router_of_large_inputs(t: Training) -> None:
    """A router that is given a stream that no norm has made small, and no balance."""
    t.backward = partial(balanced, weight=0.0)
    change_class(t.module("router"), lambda self, old, x: old(300 * x))


@fault("moe", *_ROUTER)
def router_that_learns_too_fast(t: Training) -> None:
    """A router with a rate of its own, a hundred times that of the others."""
    give_group(t, t.module("router"), lr=100 * rate(t))


@fault("moe", *_ROUTER, "{mixture}*", kinds="router|expert")
def balance_of_the_wrong_sign(t: Training) -> None:
    """A loss that has all tokens go to few experts."""
    t.backward = partial(balanced, weight=-0.5)


@fault("moe", *_ROUTER)
def router_cut_off(t: Training) -> None:
    """Logits of a router that are cut off from the loss."""
    _route(t, torch.Tensor.detach)


@fault("moe", *_ROUTER)
def router_that_is_frozen(t: Training) -> None:
    """A router that keeps what it began as."""
    t.module("router").requires_grad_(False)


@fault("moe", *_ROUTER)
def router_whose_logits_grow(t: Training) -> None:
    """A router whose weight something makes larger at each step."""
    t.each_step(lambda: t.module("router").linear.weight.data.mul_(1.08))


@fault("moe", *_ROUTER)
def router_of_nan(t: Training) -> None:
    """A router that takes the logarithm of its logits."""
    _route(t, torch.log)


@fault("moe", "{expert}*", *_ROUTER)
def expert_that_is_never_chosen(t: Training) -> None:
    """An expert that a mask leaves out."""
    mask = torch.zeros(8)
    mask[5] = -1e9
    _route(t, lambda logits: logits + mask)


@fault("moe", "{expert}*")
def expert_times_100(t: Training) -> None:
    """An expert that was initialised far too large."""
    with torch.no_grad():
        t.module("expert").up.weight.mul_(100)


@fault("moe", "{expert}*")
def expert_of_zero(t: Training) -> None:
    """An expert that gives nothing and does not learn."""
    nn.init.zeros_(t.module("expert").down.weight)
    nn.init.zeros_(t.module("expert").down.bias)
    t.module("expert").down.requires_grad_(False)


@fault("moe", "{expert}*")
def expert_left_out_of_the_optimizer(t: Training) -> None:
    """An expert that was added after the optimizer was made."""
    own = {id(parameter) for parameter in t.module("expert").parameters()}
    for group in t.optimizer.param_groups:
        group["params"] = [p for p in group["params"] if id(p) not in own]


@fault("moe", "{expert}*")
def expert_whose_gradient_is_lost(t: Training) -> None:
    """An expert whose output comes from another process, without its gradient."""
    change_class(t.module("expert"), lambda self, old, x: old(x).detach())


@fault("moe", "{mixture}*", "layers.2*")
def mixture_that_is_not_weighed(t: Training) -> None:
    """Outputs of experts times a hundred, where a share was meant."""

    def forward(self, old, x: Tensor) -> Tensor:
        return 100 * old(x)

    change_class(t.module("mixture"), forward)
