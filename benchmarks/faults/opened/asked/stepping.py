"""Faults of optimizers and schedules: parameters that they lack, and steps that are no use."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.faults.changes import rate, set_all
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.asked.small_tasks import begin
from benchmarks.faults.training import Training, cross_entropy


@fault("cnn gpt", WHOLE, kinds="rate|step|schedule|slow|stall|plateau|update|small|vanish")
def schedule_of_epochs_moved_by_batches(t: Training) -> None:
    """Calls the scheduler behind each batch, which divides the rate by ten every five epochs."""
    t.schedule = lambda step: 0.1 ** (step // 5)


@fault("cnn", WHOLE, kinds="rate|step|schedule|slow|jump|update|small|warm")
def warm_up_that_begins_with_each_epoch(t: Training) -> None:
    """Counts the steps of the warm-up within an epoch, so that the rate falls back each time."""
    t.schedule = lambda step: (1 + step % 10) / 100


@fault("mlp", WHOLE, kinds="rate|step|schedule|slow|stall|plateau|update|small|warm")
def rate_divided_by_the_warm_up(t: Training) -> None:
    """Lets the warm-up write its first rate to the optimizer, from which the schedule starts."""
    t.schedule = lambda step: min(1.0, (step + 1) / 20) / 500


@fault("cnn", "*norm", kinds="update|optimizer|group|stale|param|frozen")
def optimizer_made_before_norms_were_replaced(t: Training) -> None:
    """Replaces batch norms by group norms when the optimizer has the parameters already."""
    for stage in t.model.get_submodule("layers").children():
        width = stage.get_submodule("norm").get_parameter("weight").shape[0]
        stage.add_module("norm", nn.GroupNorm(4, width))


@fault("mlp lstm", "{last}", kinds="update|optimizer|group|param|frozen")
def group_that_was_never_appended(t: Training) -> None:
    """Makes a group for the head, and forgets to append it to the others."""
    own = {id(parameter) for parameter in t.module("last").parameters()}
    for group in t.optimizer.param_groups:
        group["params"] = [p for p in group["params"] if id(p) not in own]


class Listed(nn.Module):
    """A perceptron whose hidden layers are in a list that no module knows of."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(16, 32), nn.Linear(32, 5)
        self.hidden = [nn.Linear(32, 32) for _ in range(3)]

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 5)."""
        x = self.first(x).relu()
        for layer in self.hidden:
            x = layer(x).relu()
        return self.head(x)


@fault("mlp", WHOLE, kinds="update|param|regist|optimizer|module|list|gradient|hidden")
def layers_in_a_list(t: Training) -> None:
    """Keeps layers in a list of Python, where neither the module nor the optimizer finds them."""
    begin(t, Listed(), cross_entropy)


class Renewed(nn.Module):
    """A perceptron that makes its second layer in each forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(16, 32), nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 5)."""
        x = self.first(x).relu()
        bound = x.shape[1] ** -0.5
        fresh = torch.empty(32, 32, device=x.device).uniform_(-bound, bound)
        return self.head((x @ fresh).relu())


@fault("mlp", WHOLE, "first", "head", kinds="random|noise|loss|plateau|regist|agree|param")
def layer_made_in_the_forward(t: Training) -> None:
    """Makes a layer within the forward, which is another at each step."""
    begin(t, Renewed(), cross_entropy)


@fault("mlp cnn gpt", WHOLE, kinds="accumul|zero|grad|explod|diverg|loss|grow|rate|step")
def gradients_that_are_never_cleared(t: Training) -> None:
    """Leaves out zero_grad."""
    t.zero_grad = False


@fault("gpt resnet", WHOLE, kinds="rate|step|diverg|explod|loss|large|jump|update|plateau")
def rate_of_another_optimizer(t: Training) -> None:
    """Takes the rate of 0.1 that is usual with SGD for AdamW."""
    set_all(t, lr=0.1)
    t.steps = 150


@fault("cnn levit", WHOLE, kinds="rate|step|slow|update|small|plateau|stall")
def rate_far_too_small(t: Training) -> None:
    """Takes a thousandth of the rate, so that weights hardly move."""
    set_all(t, lr=rate(t) / 1000)


@fault("mlp cnn", WHOLE, "*", kinds="update|optimizer|param|group|stale|frozen|plateau")
def optimizer_of_another_model(t: Training) -> None:
    """Makes the model anew when the optimizer has been made."""
    t.model = copy.deepcopy(t.model)


@fault("mlp", WHOLE, "*act", "layers*", kinds="dead|relu|rate|step|loss|diverg|plateau|explod")
def rate_that_kills_activations(t: Training) -> None:
    """Takes a rate at which the first steps leave all weights of ReLUs on the negative side."""
    t.optimizer = torch.optim.Adam(t.model.parameters(), lr=0.3)


@fault("cnn mlp", WHOLE, kinds="jump|loss|reset|average|weight|update|oscill|revert")
def average_left_in_the_model(t: Training) -> None:
    """Copies the average of weights into the model to validate, and does not restore its own."""
    average = [parameter.detach().clone() for parameter in t.model.parameters()]

    @torch.no_grad()
    def follow(step: int, *_: Any) -> None:
        for kept, parameter in zip(average, t.model.parameters(), strict=True):
            kept.lerp_(parameter, 0.01)
            if step % 20 == 19:
                parameter.copy_(kept)

    t.after_step.append(follow)
