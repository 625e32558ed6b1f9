"""Optimizers that do too much, too little, or not to all."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training

_DIVERGENCE = "(?i)diverg|loss|explo|learning.?rate|update|step.?size"
_STALL = "(?i)plateau|stall|stuck|loss|slow|progress|learn|update|step.?size"


def _group(t: Training) -> dict[str, Any]:
    return t.optimizer.param_groups[0]


def _without(t: Training, *parts: str) -> None:
    """Takes modules out of the optimizer's first group."""
    out = {id(p) for part in parts for p in t.module(part).parameters()}
    _group(t)["params"] = [p for p in _group(t)["params"] if id(p) not in out]


@fault("mlp cnn gpt lstm gan", "{middle}")
def left_out_of_the_optimizer(t: Training) -> None:
    """One layer gets gradients, and no step."""
    _without(t, "middle")


@fault("mlp cnn gpt gan", "{middle}")
def group_without_learning_rate(t: Training) -> None:
    """One layer's group has a learning rate of zero."""
    _without(t, "middle")
    t.optimizer.add_param_group({"params": [*t.module("middle").parameters()], "lr": 0.0})


@fault("mlp cnn gpt gan", "{middle}")
def group_with_300_times_the_learning_rate(t: Training) -> None:
    """One layer's group moves far too fast."""
    _without(t, "middle")
    rate = 300 * _group(t)["lr"]
    t.optimizer.add_param_group({"params": [*t.module("middle").parameters()], "lr": rate})


@fault("mlp cnn gpt", "{last}")
def head_left_out_of_the_optimizer(t: Training) -> None:
    """The new head was made after the optimizer."""
    _without(t, "last")


@fault("mlp cnn gpt lstm gan", WHOLE, kinds=_DIVERGENCE)
def learning_rate_100_times_too_large(t: Training) -> None:
    """Training diverges."""
    _group(t)["lr"] *= 100


@fault("mlp cnn gpt lstm", WHOLE, kinds=_STALL)
def learning_rate_10000_times_too_small(t: Training) -> None:
    """Training stands still."""
    _group(t)["lr"] /= 10000


@fault("mlp cnn gpt lstm", WHOLE, kinds=_STALL)
def learning_rate_of_zero(t: Training) -> None:
    """Nothing moves."""
    _group(t)["lr"] = 0.0


@fault("mlp cnn gpt lstm", WHOLE, kinds=_STALL)
def schedule_that_ends_too_soon(t: Training) -> None:
    """The learning rate halves at each step."""
    t.schedule = lambda step: 0.5**step


@fault("mlp cnn gpt", WHOLE, kinds=_DIVERGENCE)
def schedule_that_grows(t: Training) -> None:
    """The learning rate grows by a tenth at each step."""
    t.schedule = lambda step: 1.1**step


@fault("mlp cnn gpt", WHOLE, kinds="(?i)decay|shrink|loss|plateau|collaps|weight")
def weight_decay_of_10(t: Training) -> None:
    """All weights fade."""
    _group(t)["weight_decay"] = 10.0 if isinstance(t.optimizer, torch.optim.SGD) else 100.0


@fault("mlp cnn gpt", "{middle}")
def weight_decay_of_one_layer(t: Training) -> None:
    """One layer's weights fade."""
    _without(t, "middle")
    decay = 10.0 if isinstance(t.optimizer, torch.optim.SGD) else 100.0
    group = {"params": [*t.module("middle").parameters()], "weight_decay": decay}
    t.optimizer.add_param_group(group)


@fault("mlp cnn gpt lstm", WHOLE, kinds=_DIVERGENCE)
def maximised_loss(t: Training) -> None:
    """The sign of the learning is wrong."""
    _group(t)["maximize"] = True


@fault("mlp cnn", WHOLE, kinds=_DIVERGENCE)
def momentum_above_one(t: Training) -> None:
    """Velocities that grow by themselves."""
    _group(t)["momentum"] = 1.1


@fault("gan", WHOLE, "discriminator.*", "generator.*", kinds="(?i)loss|grad")
def discriminator_that_wins(t: Training) -> None:
    """The discriminator learns thirty times as fast, the generator hardly."""
    judge = t.model.get_submodule("discriminator")
    ids = {id(p) for p in judge.parameters()}
    _group(t)["params"] = [p for p in _group(t)["params"] if id(p) not in ids]
    _group(t)["lr"] /= 30
    t.optimizer.add_param_group({"params": [*judge.parameters()], "lr": 3e-2})


@fault("gan", "generator.*")
def generator_left_out_of_the_optimizer(t: Training) -> None:
    """Only the discriminator was handed over."""
    ids = {id(p) for p in t.model.get_submodule("generator").parameters()}
    _group(t)["params"] = [p for p in _group(t)["params"] if id(p) not in ids]
