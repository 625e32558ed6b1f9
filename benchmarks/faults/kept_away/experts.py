"""Experts that get other tokens than they should, or give them back elsewhere."""

from __future__ import annotations

import copy

from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import held_out
from benchmarks.faults.training import Training

_ROUTER = ("{router}*", "{mixture}")


@held_out("moe", "layers.*.mlp", "layers.*.mlp.experts*", kinds="batch_axis")
def tokens_not_put_back_in_their_order(t: Training) -> None:
    """Outputs of experts left in the order in which their tokens were sorted, in all mixtures."""

    def forward(self, old, x: Tensor) -> Tensor:
        rows = old(x).flatten(0, 1)
        _, _, chosen = self.router(x)
        order = chosen[..., 0].flatten().argsort(stable=True)
        return 3 * rows[order].view_as(x)

    for i in (1, 3):
        change_class(t.model.get_submodule(f"layers.{i}.mlp"), forward)


@held_out("moe", "layers.*.mlp.experts*", "layers.*.mlp", kinds="weight_jump|loss_spike")
def experts_loaded_in_another_order(t: Training) -> None:
    """Experts that change places at step 60, of which the router knows nothing."""

    def turn() -> None:
        for i in (1, 3):
            experts = [*t.model.get_submodule(f"layers.{i}.mlp.experts").children()]
            kept = [copy.deepcopy(expert.state_dict()) for expert in experts]
            for expert, state in zip(experts, [*kept[3:], *kept[:3]], strict=True):
                expert.load_state_dict(state)

    t.at(60, turn)


@held_out("moe", *_ROUTER, kinds="detached|router")
def shares_cut_off_from_the_text(t: Training) -> None:
    """Weights of experts without a gradient, so that balance alone teaches the router."""

    def forward(self, old, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits, weights, chosen = old(x)
        return logits, weights.detach(), chosen

    change_class(t.module("router"), forward)


@held_out("moe", "{mixture}.experts*", kinds="identical|rank|expert")
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
