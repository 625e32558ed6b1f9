"""Routers that choose by something else than the token, and experts that get too little."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import fault
from benchmarks.faults.models import Router
from benchmarks.faults.training import Training

_ROUTER = ("{router}*", "{mixture}")


@fault("moe", "layers.*.mlp.router.*", "layers.*.mlp", kinds="router")
def routers_of_one_choice(t: Training) -> None:
    """One expert a token, whose weight is divided by itself: no loss of text teaches a router."""
    for module in t.model.modules():
        if isinstance(module, Router):
            module.top_k = 1


@fault("moe", *_ROUTER)
def noise_that_decides_the_routing(t: Training) -> None:
    """Noise for exploring that is far larger than any logit."""
    change_class(
        t.module("router").linear, lambda self, old, x: old(x) + 20 * torch.randn(*x.shape[:-1], 8)
    )


@fault("moe", *_ROUTER, "{mixture}.*", kinds="router|expert|dropped")
def bias_that_rewards_the_busiest(t: Training) -> None:
    """A bias without a loss that is to balance experts, with the wrong sign."""
    bias = torch.zeros(8)
    loads: list[Tensor] = []

    def choose(self, old, x: Tensor) -> Tensor:
        logits = old(x) + bias
        loads.append(logits.detach())
        return logits

    def move() -> None:
        chosen = loads.pop().flatten(0, -2).topk(2, -1).indices
        loads.clear()
        load = torch.bincount(chosen.flatten(), minlength=8).float()
        bias.add_(0.05 * (load - load.mean()).sign())

    change_class(t.module("router").linear, choose)
    t.each_step(move)


@fault("moe", "{mixture}.*", kinds="dropped_tokens")
def capacity_of_six_tokens(t: Training) -> None:
    """Experts that take six tokens of each batch, and drop all others."""

    def forward(self, old, x: Tensor) -> Tensor:
        _, weights, chosen = self.router(x)
        mixed = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            mine = chosen == i
            place = mine.any(-1).flatten().cumsum(0).view(mine.shape[:-1])
            share = (weights * mine * (place <= 6).unsqueeze(-1)).sum(-1, keepdim=True)
            mixed = mixed + share * expert(x)
        return mixed

    change_class(t.module("mixture"), forward)


@fault("moe", "layers.*.mlp", "layers.*.mlp.experts*", kinds="batch_axis")
def tokens_not_put_back_in_their_order(t: Training) -> None:
    """Outputs of experts left in the order in which their tokens were sorted, in all mixtures."""

    def forward(self, old, x: Tensor) -> Tensor:
        rows = old(x).flatten(0, 1)
        _, _, chosen = self.router(x)
        order = chosen[..., 0].flatten().argsort(stable=True)
        return 3 * rows[order].view_as(x)

    for i in (1, 3):
        change_class(t.model.get_submodule(f"layers.{i}.mlp"), forward)


@fault("moe", "layers.*.mlp.experts*", "layers.*.mlp", kinds="weight_jump|loss_spike")
def experts_loaded_in_another_order(t: Training) -> None:
    """Experts that change places at step 60, of which the router knows nothing."""

    def turn() -> None:
        for i in (1, 3):
            experts = [*t.model.get_submodule(f"layers.{i}.mlp.experts").children()]
            kept = [copy.deepcopy(expert.state_dict()) for expert in experts]
            for expert, state in zip(experts, [*kept[3:], *kept[:3]], strict=True):
                expert.load_state_dict(state)

    t.at(60, turn)


@fault("moe", *_ROUTER, kinds="detached|router")
def shares_cut_off_from_the_text(t: Training) -> None:
    """Weights of experts without a gradient, so that balance alone teaches the router."""

    def forward(self, old, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits, weights, chosen = old(x)
        return logits, weights.detach(), chosen

    change_class(t.module("router"), forward)


@fault("moe", "{mixture}.experts*", kinds="identical|rank|expert")
def experts_that_are_all_the_same(t: Training) -> None:
    """Copies of one expert, which are made equal to the first again at each step."""
    experts = [*t.module("mixture").experts.children()]
    for expert in experts[1:]:
        expert.load_state_dict(experts[0].state_dict())
    for parameters in zip(*(expert.parameters() for expert in experts), strict=True):
        first = parameters[0]

        def follow(step: int, own: nn.Parameter = first, others=parameters[1:]) -> None:
            for other in others:
                other.data.copy_(own.data)

        t.before_step.append(follow)
