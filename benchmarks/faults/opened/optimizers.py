"""Optimizers and schedules: what they hold, and what they are told."""

from __future__ import annotations

import copy
import math

import torch

from benchmarks.faults.changes import give_group, rate, set_all
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training

_BLOWN_UP = "large_steps|divergence|loss_spike"
_STALL = "small_steps|plateau|no_update"


@fault("mlp lstm", kinds="no_update")
def optimizer_of_a_copy(t: Training) -> None:
    """An optimizer of a model that was copied after it: what is trained never moves."""
    set_all(t, params=[*copy.deepcopy(t.model).parameters()])


@fault(
    "gpt moe",
    *("words", "places", "layers.*.attn.*", "layers.*.norm*", "norm", "head"),
    kinds="no_update",
)
def only_feeds_in_the_optimizer(t: Training) -> None:
    """A filter of parameters by name that catches the feeds alone."""
    set_all(t, params=[p for name, p in t.model.named_parameters() if ".mlp." in name])


@fault("mlp levit", WHOLE, kinds=_STALL)
def warm_up_that_counts_epochs(t: Training) -> None:
    """A warm-up over as many steps as there are epochs, and more than anyone waits for."""
    t.schedule = lambda step: (step + 1) / 30000


@fault("cnn gpt", WHOLE, kinds="divergence|loss_spike|rate")
def schedule_below_zero(t: Training) -> None:
    """A cosine that nobody lifted above zero: from step 50 on, the learning is undone."""
    t.schedule, t.steps = lambda step: math.cos(math.pi * step / 100), 80


@fault("mlp gpt", WHOLE, kinds=_BLOWN_UP)
def warm_up_turned_round(t: Training) -> None:
    """A learning rate that begins 60 times as large as it ends."""
    t.schedule = lambda step: 1 + 60 * 0.8**step


@fault("lstm moe", WHOLE, kinds=_STALL)
def sgd_in_the_place_of_adam(t: Training) -> None:
    """SGD at a learning rate that is Adam's."""
    t.optimizer = torch.optim.SGD(t.model.parameters(), lr=3e-4)


@fault("mlp cnn", WHOLE, kinds=_BLOWN_UP)
def adam_at_the_rate_of_sgd(t: Training) -> None:
    """Adam at a learning rate that is SGD's."""
    t.optimizer = torch.optim.Adam(t.model.parameters(), lr=0.2)


@fault("mlp gpt", "{late}")
def layer_of_two_optimizers(t: Training) -> None:
    """A layer that a second optimizer has too, with a learning rate of its own."""
    second = torch.optim.SGD(t.module("late").parameters(), lr=3.0, momentum=0.9)
    t.optimizer.register_step_post_hook(lambda *_: second.step())


@fault("mlp cnn", WHOLE, kinds="not_cleared")
def gradients_cleared_every_tenth_step(t: Training) -> None:
    """A loop that was made for accumulation, and steps at each batch."""
    t.zero_grad = False
    t.before_step.append(lambda step: None if step % 10 else t.optimizer.zero_grad())


@fault("cnn gpt", "{last}", kinds="not_cleared")
def gradients_of_the_head_not_cleared(t: Training) -> None:
    """A loop that clears the gradients of the backbone alone."""
    head = {id(parameter) for parameter in t.module("last").parameters()}

    def clear(step: int) -> None:
        for parameter in t.model.parameters():
            if id(parameter) not in head:
                parameter.grad = None

    t.zero_grad = False
    t.before_step.append(clear)


@fault("mlp gpt", "layers.*", kinds="odd_rate|odd_steps|small_steps")
def rates_that_fall_too_fast_with_depth(t: Training) -> None:
    """Layers of which each has a twentieth of the learning rate of the one behind it."""
    layers = list(t.model.get_submodule("layers").children())
    own = rate(t)
    for depth, layer in enumerate(reversed(layers), 1):
        give_group(t, layer, lr=own * 0.05**depth)
    if "words" in dict(t.model.named_children()):
        for name in ("words", "places"):
            give_group(t, t.model.get_submodule(name), lr=own * 0.05 ** (len(layers) + 1))


@fault("moe", "{expert}.*")
def expert_with_a_rate_of_its_own(t: Training) -> None:
    """An expert whose group has a hundred times the learning rate of others."""
    give_group(t, t.module("expert"), lr=100 * rate(t))


@fault("gan", "discriminator.*", kinds="large_decay")
def decay_of_one_player(t: Training) -> None:
    """A discriminator whose weights fade faster than it learns."""
    t.optimizer = torch.optim.AdamW(t.model.parameters(), lr=1e-3, betas=(0.5, 0.999))
    give_group(t, t.model.get_submodule("discriminator"), weight_decay=100.0)
