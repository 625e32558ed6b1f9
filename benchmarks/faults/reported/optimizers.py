"""Faults of the optimizer and its groups."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.faults.changes import give_group, rate, set_all
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training

_BLOWN_UP = "large_steps|divergence|non_finite|loss|plateau"


@fault("mlp cnn gpt lstm", "{middle}")
def rate_of_one_layer_times_100(t: Training) -> None:
    """A group of one layer with another's learning rate."""
    give_group(t, t.module("middle"), lr=100 * rate(t))


@fault("gpt cnn", "{stage}*")
def rate_of_one_block_times_100(t: Training) -> None:
    """A group of one block with another's learning rate."""
    give_group(t, t.module("stage"), lr=100 * rate(t))


@fault("mlp cnn gpt lstm", "{middle}")
def rate_of_one_layer_over_1000(t: Training) -> None:
    """A group of one layer that hardly learns."""
    give_group(t, t.module("middle"), lr=rate(t) / 1000)


@fault("gpt cnn mlp", "{stage}*")
def rate_of_one_block_over_1000(t: Training) -> None:
    """A group of one block that hardly learns."""
    give_group(t, t.module("stage"), lr=rate(t) / 1000)


@fault("gpt cnn", "{stage}")
def block_not_in_the_optimizer(t: Training) -> None:
    """A block whose parameters the optimizer does not have."""
    own = {id(parameter) for parameter in t.module("stage").parameters()}
    for group in t.optimizer.param_groups:
        group["params"] = [p for p in group["params"] if id(p) not in own]


@fault("gan", "generator*")
def generator_not_in_the_optimizer(t: Training) -> None:
    """A generator that nothing trains."""
    own = {id(parameter) for parameter in t.model.get_submodule("generator").parameters()}
    for group in t.optimizer.param_groups:
        group["params"] = [p for p in group["params"] if id(p) not in own]


@fault("gan", "discriminator*", kinds="large_steps")
def discriminator_that_overwhelms(t: Training) -> None:
    """A learning rate of the discriminator that is 100 times the generator's."""
    give_group(t, t.model.get_submodule("discriminator"), lr=300 * rate(t))


@fault("mlp cnn gpt lstm gan", WHOLE, kinds=_BLOWN_UP)
def rate_times_100(t: Training) -> None:
    """A learning rate that is far too large."""
    set_all(t, lr=100 * rate(t))


@fault("mlp cnn gpt lstm", WHOLE, kinds=_BLOWN_UP)
def rate_times_25(t: Training) -> None:
    """A learning rate that is too large."""
    set_all(t, lr=25 * rate(t))


@fault("mlp cnn gpt lstm", WHOLE, kinds="small_steps|plateau|no_update")
def rate_of_a_millionth(t: Training) -> None:
    """A learning rate that is far too small."""
    set_all(t, lr=1e-6 * rate(t))


@fault("mlp cnn gpt lstm", WHOLE, kinds="drift|decay")
def weight_decay_far_too_large(t: Training) -> None:
    """Weights that shrink faster than they learn."""
    set_all(t, weight_decay=0.05 / rate(t) if t.names["first"] != "layers.0.conv" else 1.0)


@fault("mlp gpt cnn", "{middle}")
def decay_of_the_group_of_one_layer(t: Training) -> None:
    """A weight decay of one layer that is meant for another optimizer."""
    give_group(t, t.module("middle"), weight_decay=0.05 / rate(t))


@fault("gpt lstm", WHOLE, kinds="small_steps|plateau|no_update")
def epsilon_of_adam_of_1000(t: Training) -> None:
    """An epsilon of Adam that is far above any gradient."""
    set_all(t, eps=1e3)


@fault("mlp cnn", WHOLE, kinds=_BLOWN_UP)
def momentum_above_1(t: Training) -> None:
    """A momentum that grows."""
    set_all(t, momentum=1.1)


@fault("mlp gpt", "{middle}")
def maximized_layer(t: Training) -> None:
    """A group of one layer that goes uphill, fast."""
    give_group(t, t.module("middle"), maximize=True, lr=10 * rate(t))


@fault("gpt lstm", "{middle}")
def state_of_adam_lost(t: Training) -> None:
    """Second moments of one layer that were loaded as nothing."""

    def lose() -> None:
        for parameter in t.module("middle").parameters():
            t.optimizer.state[parameter]["exp_avg_sq"].mul_(1e-10)

    t.at(50, lose)


@fault("gpt-tied", "{last}", "words")
def weight_tying_broken(t: Training) -> None:
    """A head that got a weight of its own, which the optimizer does not know."""
    head = t.model.get_submodule("head")
    head.weight = nn.Parameter(head.weight.detach().clone())


@fault("mlp gpt", "{last}")
def head_made_anew(t: Training) -> None:
    """A head that was replaced after the optimizer was made."""
    head = t.model.get_submodule("head")
    head.weight = nn.Parameter(torch.randn_like(head.weight) * 0.1)
